"""Columns of the tables that explain one step."""

from outpace.model import Field, Unit

PARTS = (
    Field("category", Unit.TEXT, "step-time category"),
    Field("time_ps", Unit.PS, "time of the category in this step", "This step"),
    Field("usual_ps", Unit.PS, "its mean over the host's complete steps", "Mean step"),
    Field("events", Unit.COUNT, "events that make it up"),
)

GROUPS = (
    Field("category", Unit.TEXT, "step-time category that the time counts for"),
    Field("event", Unit.TEXT, "name of the events"),
    Field("thread", Unit.TEXT, "thread or stream that they ran on"),
    Field("count", Unit.COUNT, "events of that name and thread in the step"),
    Field(
        "counted_ps",
        Unit.PS,
        "their time that counts for the category: without what counts for another event",
        "Counted",
    ),
    Field("duration_ps", Unit.PS, "sum of their lengths, overlaps and all"),
)

EVENTS = (
    Field("category", Unit.TEXT, "step-time category that the time counts for"),
    Field("event", Unit.TEXT, "name of the event"),
    Field("plane", Unit.TEXT, "host or device that recorded it"),
    Field("thread", Unit.TEXT, "thread or stream that it ran on"),
    Field("offset_ps", Unit.PS, "start of the event, counted from the start of the step", "In step at"),
    Field("duration_ps", Unit.PS, "length of the event"),
    Field("counted_ps", Unit.PS, "time of it that counts for the category", "Counted"),
)
