// Prints the last lines of every benchmark, which programs read.
#ifndef KVTIER_BENCH_FIGURE_H_
#define KVTIER_BENCH_FIGURE_H_

#include <string>
#include <vector>

namespace kvtier::bench {

// Prints "figure NAME VALUE UNIT RATIO REFERENCE".
void PrintFigure(const std::string& name, double value, const char* unit, double ratio,
                 const char* reference);

// Returns the median. REQUIRES: not empty.
double Median(std::vector<double> values);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_FIGURE_H_
