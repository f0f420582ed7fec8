"""Numbers and names in words, as pages and tables write them (`analysis/wording.py`)."""

from moso.analysis.wording import SEVERAL as SEVERAL
from moso.analysis.wording import count_of as count_of
from moso.analysis.wording import data_name as data_name
from moso.analysis.wording import duration as duration
from moso.analysis.wording import percent as percent
