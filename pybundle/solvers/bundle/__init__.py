"""Bundle methods: one plane for each part and point, a master problem over all of them."""
