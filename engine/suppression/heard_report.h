/* GET /v1/heard, GET and DELETE /v1/heard/:id: mail for us that was not understood, kept to be read by
 * people (unknown_mail.h). GET and POST /v1/return-keys: the keys that seal return addresses, never their
 * secrets, and a new one (return_keys.h). Runs on the slow clerk, which may wait for the disk. */
#ifndef ENGINE_HEARD_REPORT_H
#define ENGINE_HEARD_REPORT_H

#include "engine/http/api.h"

api_handler heard_report_list, heard_report_show, heard_report_remove, heard_report_keys,
    heard_report_rotate;

#endif
