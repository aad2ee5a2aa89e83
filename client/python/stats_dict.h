// Makes the dictionary of counters that Client.stats() returns.
#ifndef KVTIER_CLIENT_PYTHON_STATS_DICT_H_
#define KVTIER_CLIENT_PYTHON_STATS_DICT_H_

#include <pybind11/pybind11.h>

#include "client/client_stats.h"

namespace kvtier::python {

// Returns the dictionary. REQUIRES: the GIL.
pybind11::dict DictOf(const ClientStats& stats);

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_STATS_DICT_H_
