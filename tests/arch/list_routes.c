/* Prints the routes of the operators' interface: METHOD PATH PARAMETER... a line. */
#include "engine/report/api_routes.h"

#include <stdio.h>

int main(void)
{
    for (size_t i = 0; i < api_route_count; i++) {
        const struct api_route *r = &api_routes[i];
        printf("%s %s", r->method, r->path);
        for (const char *const *p = r->params; p != NULL && *p != NULL; p++) {
            printf(" %s", *p);
        }
        printf("\n");
    }
    return 0;
}
