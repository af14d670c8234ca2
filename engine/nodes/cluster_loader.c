/* Owns how the module is found, and what of the configuration it is told. Called at the start, and by `sluice check`; does not open a client. */
#include "engine/nodes/cluster_loader.h"

#include "base/error.h"
#include "engine/config/config.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int cluster_loader_load(const char *path, const struct cluster_module **ret,
                        const struct cluster_log_module **ret_log,
                        char text[static CLUSTER_LOADER_TEXT])
{
    const char *file = path != NULL ? path : SLUICE_MODULE_PATH;
    void *object = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL) {
        (void)snprintf(text, CLUSTER_LOADER_TEXT,
                       "%s; install the package sluice-cluster, or name the module", dlerror());
        return ERR_MISSING;
    }
    void *symbol = dlsym(object, CLUSTER_MODULE_SYMBOL);
    void *log_symbol = dlsym(object, CLUSTER_LOG_MODULE_SYMBOL);
    cluster_module_get *get = NULL;
    cluster_log_module_get *get_log = NULL;
    memcpy(&get, &symbol, sizeof(get)); /* C has no conversion between the two */
    memcpy(&get_log, &log_symbol, sizeof(get_log));
    const struct cluster_module *module = get == NULL ? NULL : get();
    if (module == NULL || get_log == NULL || module->version != CLUSTER_MODULE_VERSION) {
        (void)snprintf(text, CLUSTER_LOADER_TEXT,
                       "%.200s is the module of another version of sluice; install the one of %s",
                       file, SLUICE_VERSION);
        (void)dlclose(object); /* the complaint says all */
        return ERR_SYNTAX;
    }
    *ret = module;
    *ret_log = get_log();
    return 0;
}

struct cluster_options cluster_loader_options(const struct config_cluster *config, const char *name,
                                              usec_t timeout)
{
    return (struct cluster_options){
        .name = name,
        .servers = config->servers.items,
        .server_count = config->servers.count,
        .credentials = config->credentials,
        .tls_ca_file = config->tls_ca_file,
        .tls_certificate = config->tls_certificate,
        .tls_key = config->tls_key,
        .replicas = config->replicas,
        .timeout = timeout,
    };
}
