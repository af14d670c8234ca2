/* The calendar without the C library, whose gmtime and snprintf cost as much as the rest of a
 * message's line together. */
#include "engine/date.h"

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
