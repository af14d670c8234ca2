#include "engine/date.h"

#include <stdio.h>
#include <time.h>

void date_format(usec_t wall, char ret[DATE_BYTES])
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t seconds = (time_t)(wall / USEC_PER_SEC);
    struct tm tm;
    if (gmtime_r(&seconds, &tm) == NULL) {
        seconds = 0;
        (void)gmtime_r(&seconds, &tm); /* the epoch can be broken down */
    }
    /* strftime would speak the locale's language. */
    (void)snprintf(ret, DATE_BYTES, "%s, %02d %s %04d %02d:%02d:%02d +0000", days[tm.tm_wday % 7],
                   tm.tm_mday, months[tm.tm_mon % 12], (tm.tm_year + 1900) % 10000, tm.tm_hour,
                   tm.tm_min, tm.tm_sec);
}
