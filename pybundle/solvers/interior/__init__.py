"""An interior point method for losses with corners."""
