"""Bundle methods, which store a plane for each part and point, and solve a master problem over all planes."""
