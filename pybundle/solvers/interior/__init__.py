"""An interior point method for piecewise linear losses."""
