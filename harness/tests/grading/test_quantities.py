"""What gates can count."""

import pytest

from backwarp.errors import CourseError
from backwarp.grading.quantities import quantity


def test_what_is_not_counted_is_a_mistake_of_the_course():
    with pytest.raises(CourseError, match="a gate counts 'sectros'"):
        quantity("sectros")
