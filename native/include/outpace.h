/* The C interface of Outpace's native core: the only door between Python and C++.
 *
 * Units: time is int64 picoseconds relative to the space's origin (ox_sizes.origin_ns, nanoseconds as written in the file); offsets and
 * lengths are bytes in the profile given to ox_open, which the caller keeps alive and should keep unchanged. All output arrays are allocated by the
 * caller with the sizes that ox_sizes reports. No function throws, allocates Python objects or needs the GIL. Each returns a status, OX_DONE or
 * why not, and what it fills in is of no use then; those that end something return nothing.
 *
 * Damaged input never fails: every read is bounds-checked, what stands before the damage is kept, and what was lost is listed. Bytes that change
 * are never written past an array: what ox_open has counted binds every later pass, which answers OX_CHANGED where it finds another number. */
#ifndef OUTPACE_H_
#define OUTPACE_H_

#include <stdint.h>

#if defined(__GNUC__)
#define OX_API __attribute__((visibility("default")))
#else
#define OX_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ox_space ox_space;

typedef struct {
  uint64_t planes, lines, events, event_names, stat_names;
  uint64_t owner_stats;   /* stats of planes and of event metadata */
  uint64_t strings;       /* hostnames, errors and warnings of the space */
  uint64_t damages;       /* entries that ox_damages fills (at most 256) */
  uint64_t damages_total; /* how many there were */
  uint64_t aggregated;    /* events that carry num_occurrences instead of an offset */
  uint64_t clamped;       /* events whose time did not fit int64 ps, or whose duration was negative */
  uint64_t nameless_stats; /* of a damaged file: stats that lack their name, or the name that they refer to */
  int64_t origin_ns;      /* smallest timestamp of a line that has events */
} ox_sizes;

/* What a function returns. OX_TOO_MANY: more events than int32 rows can number. OX_CHANGED: other bytes than ox_open
 * has seen. OX_TOO_LARGE: the entries of the file would take more memory than the budget. OX_UNREADABLE: the system did not give bytes of the file. */
enum { OX_DONE = 0, OX_NO_MEMORY = 1, OX_FAILED = 2, OX_TOO_MANY = 3, OX_CHANGED = 4, OX_TOO_LARGE = 5, OX_UNREADABLE = 6 };

/* Which text of this file the library was built with: its CRC-32, which setup.py defines. */
OX_API uint32_t ox_abi(void);

/* Why bytes were lost. */
enum { OX_DAMAGE_TRUNCATED = 1, OX_DAMAGE_MALFORMED = 2 };

/* Kind of a stat's value; `value` holds the bits; for text and bytes the offset, with `length`; for a reference
 * the row of the stat name that it names (UINT64_MAX when there is none). */
enum { OX_STAT_NONE = 0, OX_STAT_DOUBLE = 2, OX_STAT_UINT = 3, OX_STAT_INT = 4, OX_STAT_TEXT = 5, OX_STAT_BYTES = 6, OX_STAT_REF = 7 };

/* The `size` bytes of a profile: in memory, or (`memory` NULL) in a file, by its descriptor, of which every pass reads blocks as it goes.
 * `block`: the most bytes to read at a time where fewer will do; 0: the usual. */
typedef struct {
  const uint8_t* memory;
  uint64_t size;
  int64_t file;
  uint64_t block;
} ox_source;

/* Index a serialized XSpace: planes, lines and metadata tables, not yet the events. `budget`: bytes of memory that may be needed, by the core and by
 * its caller, for what the file holds. A small file may claim any number of planes, lines, names and events: OX_TOO_LARGE then. `timed`:
 * ox_window will be called, and finds the times of the events noted. */
OX_API int32_t ox_open(const ox_source* source, int32_t timed, uint64_t budget, int32_t threads, ox_space** space);
OX_API void ox_close(ox_space* space);
/* From here on read the bytes in memory, as many as the file had. */
OX_API int32_t ox_hold(ox_space* space, const uint8_t* memory);
/* Stat names of one plane that say the same, given by the first of them: from here on a stat of name i is one of name row[i]. At most once, after
 * ox_open and before ox_events. OX_FAILED where row[i] is of another plane, or behind i. */
OX_API int32_t ox_merge_stat_names(ox_space* space, const int32_t* row);
OX_API int32_t ox_get_sizes(const ox_space* space, ox_sizes* out);

OX_API int32_t ox_planes(const ox_space* space, int64_t* id, uint64_t* name_at, uint32_t* name_len, uint32_t* first_line);
/* Lines of one plane that share an id are one line. first_event has lines + 1 entries. */
OX_API int32_t ox_lines(const ox_space* space, uint32_t* plane, int64_t* id, int64_t* timestamp_ns, uint64_t* name_at, uint32_t* name_len,
                     uint64_t* first_event);
OX_API int32_t ox_event_names(const ox_space* space, uint32_t* plane, int64_t* id, uint64_t* name_at, uint32_t* name_len,
                           uint64_t* display_at, uint32_t* display_len);
OX_API int32_t ox_stat_names(const ox_space* space, uint32_t* plane, int64_t* id, uint64_t* name_at, uint32_t* name_len);
/* Stats of planes (event_name = -1) and of event metadata (event_name = its row). stat_name is -1 for an unknown id. */
OX_API int32_t ox_owner_stats(const ox_space* space, uint32_t* plane, int32_t* event_name, int32_t* stat_name, uint8_t* kind,
                           uint64_t* value, uint32_t* length);
/* field: 2 error, 3 warning, 4 hostname (the field number in XSpace). */
OX_API int32_t ox_strings(const ox_space* space, uint8_t* field, uint64_t* at, uint32_t* len);
OX_API int32_t ox_damages(const ox_space* space, uint64_t* at, uint64_t* lost, int32_t* plane, uint8_t* why);

/* Of the events only those of a window count from here on: ps from the origin, [begin, end), what lies in it or (`touching`) whatever reaches
 * into it; INT64_MIN and INT64_MAX are no bounds. At most once with a bound, after ox_open and before ox_lines and ox_events: ox_sizes.events is
 * then the window's. Answers the first start and the last end of all events, but for times of 2^56 ps and more (0 and 0 where there is none). */
OX_API int32_t ox_window(ox_space* space, int64_t begin_ps, int64_t end_ps, int32_t touching, int32_t threads, int64_t* first_ps, int64_t* last_ps);

/* Decode all events that count, sorted within each line by (start, longer first), and count their stats. `name` is a row of ox_event_names, or event_names
 * for an unknown id. */
OX_API int32_t ox_events(ox_space* space, int32_t threads, int32_t* name, int64_t* start_ps, int64_t* duration_ps);
/* After ox_events: the events with num_occurrences (row and count; their start is their line's). */
OX_API int32_t ox_aggregated(const ox_space* space, uint64_t* row, int64_t* occurrences);

/* After ox_events: how many stats of each stat name do not count, because an earlier one of their event has the name. An event has one value of a
 * stat, and of several the first: so XStatsOwner::GetStat of openxla/xla finds it, by which XProf's tools read. */
OX_API int32_t ox_repeated(const ox_space* space, uint64_t* stats);

/* Stats of the events, after ox_events: column[stat name row] says which output column a stat goes to, -1 for none. `first` has columns + 1
 * entries: column c holds values first[c] to first[c + 1]. ox_stats decodes them, sorted by event row within a column, and of each name at most one
 * a row; it looks at lines only that hold some. */
OX_API int32_t ox_stat_bounds(const ox_space* space, const int32_t* column, uint32_t columns, uint64_t* first);
OX_API int32_t ox_stats(const ox_space* space, const int32_t* column, uint32_t columns, int32_t threads, int32_t* row, uint8_t* kind,
                        uint64_t* value, uint32_t* length);

/* Nesting on each line. `mask` (may be NULL) selects events that take part; the others get parent -1, self 0 and an empty subtree. parent: row of
 * the innermost event that contains this one, or -1. subtree_end: one past the last of the event's descendants. self: duration minus the
 * children's. Each of the three may be NULL: not wanted. Zero-duration events are children of whatever contains them, and contain only
 * each other. */
OX_API int32_t ox_nest(uint64_t lines, const uint64_t* first_event, const int64_t* start_ps, const int64_t* duration_ps, const uint8_t* mask,
                    int32_t threads, int32_t* parent, int32_t* subtree_end, int64_t* self_ps);

/* Whole numbers in few bytes each: number i is base[i / 256] + unit * small[i], where `small` has entries of `width` bytes (1, 2 or 4), or, where
 * all bits of that are set, the one of `aside` that stands for row i, which is in aside_row (sorted). */
typedef struct {
  uint64_t count, asides;
  int64_t unit;
  const void* small;
  const int64_t* base;
  const int64_t* aside_row;
  const int64_t* aside;
  uint32_t width;
} ox_packed;

/* What it takes to pack numbers (int32 or int64: value_width is 4 or 8): the base of every 256, their unit (1000 where that divides all, else 1),
 * and how many stand aside where entries have 1, 2 and 4 bytes. */
OX_API int32_t ox_pack_plan(uint64_t count, const void* value, uint32_t value_width, int32_t threads, int64_t* base, int64_t* unit, uint64_t* aside);
OX_API int32_t ox_pack(uint64_t count, const void* value, uint32_t value_width, int32_t threads, const int64_t* base, int64_t unit, uint32_t width,
                       void* small);
/* The numbers of some rows (int32 or int64; a negative one counts from the end), or (NULL) of so many from `begin` on. OX_FAILED for a row
 * that there is not. */
OX_API int32_t ox_unpack(const ox_packed* packed, uint64_t rows, const void* row, uint32_t row_width, uint64_t begin, void* value,
                         uint32_t value_width);
/* Of the rows [begin, end), in which numbers are sorted, the first that is not before each of the wanted ones, or (`after`) behind it. */
OX_API int32_t ox_search(const ox_packed* packed, uint64_t begin, uint64_t end, uint64_t count, const int64_t* wanted, int32_t after, int64_t* row);

/* The one partner of each effect: of the causes with its key the latest that is not after it in time, else the first of those after it;
 * `partner` is its position, -1 where no cause has the key. A key is one column, or two (`*_second`, else NULL). Causes and effects need no
 * order; of causes with one key and time the last counts. */
OX_API int32_t ox_latest(uint64_t causes, const uint64_t* cause_key, const uint64_t* cause_second, const int64_t* cause_time,
                         uint64_t effects, const uint64_t* effect_key, const uint64_t* effect_second, const int64_t* effect_time,
                         int32_t threads, int32_t* partner);

/* Group-by key in [0, keys): count, sum of duration, sum of self, minimum and maximum duration. `mask` may be NULL. */
OX_API int32_t ox_group(uint64_t events, const int32_t* key, const uint8_t* mask, const int64_t* duration_ps, const int64_t* self_ps,
                     uint64_t keys, int64_t* count, int64_t* total, int64_t* self_total, int64_t* smallest, int64_t* largest);

/* Spread group ids from root events to everything they caused: their subtrees, and across `edges` (cause row -> effect row, in any order).
 * A row keeps the first group that reaches it. group must be filled with -1. */
OX_API int32_t ox_spread(uint64_t events, const int32_t* subtree_end, uint64_t edges, const int32_t* cause, const int32_t* effect,
                      uint64_t roots, const int32_t* root_row, const int32_t* root_group, int32_t* group);

/* Cut overlapping spans into non-overlapping time by priority: for each window w (a step), the time in [begin, end) during which the highest
 * `priority` among the spans of group w is p goes to out[w * priorities + p]; time without a span goes to priority 0.
 * Spans with priority 0 are ignored. Spans need no order. */
OX_API int32_t ox_sweep(uint64_t spans, const int32_t* group, const uint8_t* priority, const int64_t* start_ps, const int64_t* end_ps,
                     uint64_t windows, const int64_t* begin, const int64_t* end, uint32_t priorities, int32_t threads, int64_t* out);

/* Give every moment to the events that are open then: in equal parts to those that compute, or while none does to those that wait. `parent`:
 * place of the event that contains this one, or -1; while a nested event is open, the one around it has no part. own: what an event gets; alone:
 * what of it no other had a part in (0 for one that waits). sums: time in which any computes, in which one does, and of all that do; ps. */
OX_API int32_t ox_share(uint64_t count, const int64_t* start_ps, const int64_t* end_ps, const int32_t* parent, const uint8_t* waits, double* own,
                     double* alone, double* sums);

/* Length of the union of spans within [begin, end), and the integral of how many are open (time times depth), for spans sorted by start. */
OX_API int32_t ox_cover(uint64_t spans, const int64_t* start_ps, const int64_t* end_ps, int64_t begin, int64_t end, int64_t* covered,
                     int64_t* summed);

/* Writing a trace file for a viewer, straight to a file descriptor. Times become whole nanoseconds: start and end are rounded down, so that
 * nesting survives. Tracks are numbered by the caller, from 1; ids of the same number in one file are its business. Texts are UTF-8 (what is
 * not becomes U+FFFD). Every event becomes exactly one slice: those of one line that overlap without nesting go to further lanes of its track. */
typedef struct ox_export ox_export;
enum { OX_FORMAT_PERFETTO = 1, OX_FORMAT_JSON = 2 };
enum { OX_TRACK_SECTION = 1, OX_TRACK_SLICES = 2, OX_TRACK_BYTES = 3, OX_TRACK_COUNTER = 4 };

/* Events of one line of a decoded space. The columns are those of ox_events, of this line. */
typedef struct {
  const ox_space* space;
  const int32_t* name;
  const int64_t* start_ps;
  const int64_t* duration_ps;
  const uint8_t* mask;     /* which of them are written; NULL: all */
  const uint8_t* argument; /* per stat name: is it written; NULL: no arguments at all */
  int64_t shift_ns;        /* added to all times */
  uint64_t line, track;
  uint64_t flows;          /* arrows, sorted by event row of the whole space: id, and whether it ends (1) or begins (0) at the event */
  const int32_t* flow_row;
  const uint64_t* flow_id;
  const uint8_t* flow_ends;
} ox_line_slices;

/* Slices that are no event of the file, sorted by (start, longer first). A text is a number into text_at, which has texts + 1 entries into
 * `text`. Argument c of slice i stands at [c * slices + i]: a value of argument_kind[c], for OX_STAT_TEXT the number of a text. */
typedef struct {
  uint64_t slices, arguments, texts, track;
  const int64_t* start_ps;
  const int64_t* duration_ps;
  const uint32_t* name;
  const uint32_t* argument_name;
  const uint8_t* argument_kind;
  const uint64_t* argument_value;
  const char* text;
  const uint64_t* text_at;
  uint32_t category; /* a text, or UINT32_MAX for none */
  int64_t shift_ns;
} ox_made_slices;

/* OX_FAILED for an unknown format. */
OX_API int32_t ox_export_open(int32_t file, int32_t format, ox_export** out);
OX_API int32_t ox_export_track(ox_export* out, uint64_t track, uint64_t parent, int32_t kind, int32_t rank, const char* name, uint32_t name_len,
                            const char* description, uint32_t description_len);
/* `written`: the number of slices. */
OX_API int32_t ox_export_line(ox_export* out, const ox_line_slices* line, uint64_t* written);
OX_API int32_t ox_export_made(ox_export* out, const ox_made_slices* made, uint64_t* written);
OX_API int32_t ox_export_counter(ox_export* out, uint64_t track, uint64_t count, const int64_t* at_ps, const int64_t* value,
                                 int64_t shift_ns);
/* Write what is left; `error` is 0, or the errno of the first write that failed. */
OX_API int32_t ox_export_finish(ox_export* out, int32_t* error);
/* Free the writer; the descriptor stays open. */
OX_API void ox_export_close(ox_export* out);

#ifdef __cplusplus
}
#endif
#endif
