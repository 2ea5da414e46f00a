"""A report on a filter as one HTML page that needs nothing else."""

from psimlearn.report.page import fit_page as fit_page
from psimlearn.report.page import model_page as model_page

__all__ = ["fit_page", "model_page"]
