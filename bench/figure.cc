#include "bench/figure.h"

#include <algorithm>
#include <cstdio>

namespace kvtier::bench {

void PrintFigure(const std::string& name, double value, const char* unit, double ratio,
                 const char* reference) {
  std::printf("figure %s %.4g %s %.4g %s\n", name.c_str(), value, unit, ratio, reference);
  std::fflush(stdout);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace kvtier::bench
