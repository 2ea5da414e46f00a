"""Reports for people: pictures of a filter, and one HTML page that needs no other file."""

from psimlearn.report.page import fit_page as fit_page
from psimlearn.report.page import model_page as model_page

__all__ = ["fit_page", "model_page"]
