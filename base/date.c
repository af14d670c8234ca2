/* The calendar without the C library, whose gmtime and snprintf cost as much as the rest of a
 * message's line together, and whose strptime depends on the locale. */
#include "base/date.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* The days-to-civil rule of the proleptic Gregorian calendar, with years that begin in March. */
void date_split(usec_t wall, struct date *ret)
{
    uint64_t seconds = wall < 0 ? 0 : (uint64_t)(wall / USEC_PER_SEC);
    unsigned second_of_day = (unsigned)(seconds % 86400);
    uint64_t days = seconds / 86400;
    uint64_t since_march = days + 719468; /* since 0000-03-01 */
    uint64_t era = since_march / 146097;
    unsigned day_of_era = (unsigned)(since_march % 146097);
    unsigned year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned month = (5 * day_of_year + 2) / 153; /* 0: March */
    *ret = (struct date){
        .year = (unsigned)((era * 400 + year_of_era + (month >= 10)) % 10000),
        .month = month < 10 ? month + 3 : month - 9,
        .day = day_of_year - (153 * month + 2) / 5 + 1,
        .weekday = (unsigned)((days + 4) % 7), /* the epoch was a Thursday */
        .hour = second_of_day / 3600,
        .minute = second_of_day / 60 % 60,
        .second = second_of_day % 60,
    };
}

void date_format(usec_t wall, char ret[DATE_BYTES])
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    static const char form[] = "Ddd, 00 Mmm 0000 00:00:00 +0000";
    static_assert(sizeof(form) <= DATE_BYTES, "a date fits");
    struct date d;
    date_split(wall, &d);
    memcpy(ret, form, sizeof(form));
    memcpy(ret, days[d.weekday], 3);
    date_digits(ret + 5, d.day, 2);
    memcpy(ret + 8, months[d.month - 1], 3);
    date_digits(ret + 12, d.year, 4);
    date_digits(ret + 17, d.hour, 2);
    date_digits(ret + 20, d.minute, 2);
    date_digits(ret + 23, d.second, 2);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Takes `count` digits off the text. */
static bool take_digits(struct slice *text, size_t count, unsigned *ret)
{
    unsigned value = 0;
    if (text->len < count) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (text->data[i] < '0' || text->data[i] > '9') {
            return false;
        }
        value = value * 10 + (unsigned)(text->data[i] - '0');
    }
    *text = slice_from(*text, count);
    *ret = value;
    return true;
}

/* Takes one byte off the text that is one of `any`; '\0' when it is not. */
static char take_one_of(struct slice *text, const char *any)
{
    if (text->len == 0 || text->data[0] == '\0' || strchr(any, text->data[0]) == NULL) {
        return '\0';
    }
    char c = text->data[0];
    *text = slice_from(*text, 1);
    return c;
}

static bool take_fraction(struct slice *text, usec_t *ret)
{
    usec_t unit = USEC_PER_SEC;
    size_t digits = 0;
    *ret = 0;
    if (take_one_of(text, ".") == '\0') {
        return true;
    }
    for (; text->len > 0 && text->data[0] >= '0' && text->data[0] <= '9'; digits++) {
        unit /= 10;
        *ret += unit * (text->data[0] - '0');
        *text = slice_from(*text, 1);
    }
    return digits > 0;
}

/* Seconds east of Greenwich; all that is left of the text must be this. */
static bool take_offset(struct slice *text, int64_t *ret)
{
    unsigned hours, minutes;
    char sign = take_one_of(text, "Zz+-");
    *ret = 0;
    if (sign == 'Z' || sign == 'z') {
        return text->len == 0;
    }
    if (sign == '\0' || !take_digits(text, 2, &hours) || take_one_of(text, ":") == '\0' ||
        !take_digits(text, 2, &minutes) || hours > 23 || minutes > 59) {
        return false;
    }
    *ret = (int64_t)(hours * 3600 + minutes * 60) * (sign == '-' ? -1 : 1);
    return text->len == 0;
}

static bool is_day(const struct date *d)
{
    static const uint8_t lengths[12] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = d->year % 4 == 0 && (d->year % 100 != 0 || d->year % 400 == 0);
    return d->month >= 1 && d->month <= 12 && d->day >= 1 && d->day <= lengths[d->month - 1] &&
           (d->month != 2 || d->day < 29 || is_leap);
}

/* Days since 1970, the inverse of date_split. */
static int64_t days_of(const struct date *d)
{
    unsigned year = d->month > 2 ? d->year : d->year - 1; /* callers have years from 1970 on */
    unsigned since_march = d->month > 2 ? d->month - 3 : d->month + 9;
    unsigned year_of_era = year % 400;
    unsigned day_of_year = (153 * since_march + 2) / 5 + d->day - 1;
    unsigned day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return (int64_t)(year / 400) * 146097 + day_of_era - 719468;
}

bool date_parse(struct slice text, usec_t *ret)
{
    struct date d = {0};
    usec_t fraction;
    int64_t offset;
    if (!take_digits(&text, 4, &d.year) || take_one_of(&text, "-") == '\0' ||
        !take_digits(&text, 2, &d.month) || take_one_of(&text, "-") == '\0' ||
        !take_digits(&text, 2, &d.day) || take_one_of(&text, "Tt ") == '\0' ||
        !take_digits(&text, 2, &d.hour) || take_one_of(&text, ":") == '\0' ||
        !take_digits(&text, 2, &d.minute) || take_one_of(&text, ":") == '\0' ||
        !take_digits(&text, 2, &d.second) || !take_fraction(&text, &fraction) ||
        !take_offset(&text, &offset)) {
        return false;
    }
    if (d.year < 1970 || !is_day(&d) || d.hour > 23 || d.minute > 59 || d.second > 60) {
        return false;
    }
    int64_t seconds = days_of(&d) * 86400 + d.hour * 3600 + d.minute * 60 + d.second - offset;
    if (seconds < 0) {
        return false;
    }
    *ret = (usec_t)seconds * USEC_PER_SEC + fraction;
    return true;
}
