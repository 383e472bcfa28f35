// SPDX-License-Identifier: Apache-2.0
//
// A real, if small, training run that needs no framework: a two-layer network learns a function by Adam with weight
// decay and writes a checkpoint of its weights and optimizer state, in safetensors form, every few steps.
//
//     stepfs-demo OUTPUT_FILE [SAVES]
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kInputs = 64, kHidden = 2048, kOutputs = 16, kBatch = 16;
constexpr int kStepsPerSave = 25;

// SplitMix64; the same run on every machine.
class Random {
 public:
  float Uniform() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<float>((z ^ (z >> 31)) >> 40) / static_cast<float>(1 << 23) - 1.0f;
  }

 private:
  std::uint64_t state_ = 1;
};

struct Parameter {
  std::string name;
  std::size_t rows, columns;
  std::vector<float> value, gradient, mean, variance;

  Parameter(std::string label, std::size_t r, std::size_t c, float scale, Random& random)
      : name(std::move(label)), rows(r), columns(c), value(r * c), gradient(r * c), mean(r * c), variance(r * c) {
    for (float& v : value) v = scale * random.Uniform();
  }
  void Adam(int step, float rate) {
    const float correct1 = 1 - std::pow(0.9f, static_cast<float>(step));
    const float correct2 = 1 - std::pow(0.999f, static_cast<float>(step));
    for (std::size_t i = 0; i < value.size(); ++i) {
      mean[i] = 0.9f * mean[i] + 0.1f * gradient[i];
      variance[i] = 0.999f * variance[i] + 0.001f * gradient[i] * gradient[i];
      value[i] -= rate * (mean[i] / correct1 / (std::sqrt(variance[i] / correct2) + 1e-8f) + 0.01f * value[i]);
      gradient[i] = 0;
    }
  }
};

// Writes name.tmp, then renames it over name, as careful frameworks do.
bool Save(const std::string& path, const std::vector<const Parameter*>& parameters, int step) {
  std::string header = R"({"__metadata__":{"step":")" + std::to_string(step) + "\"}";
  std::size_t offset = 0;
  const auto list = [&](const std::string& name, const Parameter& p) {
    const std::size_t bytes = p.value.size() * sizeof(float);
    header += ",\"" + name + R"(":{"dtype":"F32","shape":[)" + std::to_string(p.rows) + "," +
              std::to_string(p.columns) + "],\"data_offsets\":[" + std::to_string(offset) + "," +
              std::to_string(offset + bytes) + "]}";
    offset += bytes;
  };
  for (const Parameter* p : parameters) {
    list(p->name, *p);
    list(p->name + ".exp_avg", *p);
    list(p->name + ".exp_avg_sq", *p);
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::ofstream file(path + ".tmp", std::ios::binary);
  const std::uint64_t length = header.size();
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  for (const Parameter* p : parameters) {
    for (const auto* data : {&p->value, &p->mean, &p->variance}) {
      file.write(reinterpret_cast<const char*>(data->data()),
                 static_cast<std::streamsize>(data->size() * sizeof(float)));
    }
  }
  file.close();
  return file.good() && std::rename((path + ".tmp").c_str(), path.c_str()) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: stepfs-demo OUTPUT_FILE [SAVES]\n";
    return 2;
  }
  const int saves = argc == 3 ? std::atoi(argv[2]) : 6;
  Random random;
  Parameter first("hidden.weight", kHidden, kInputs, 0.15f, random);
  Parameter second("output.weight", kOutputs, kHidden, 0.03f, random);
  Parameter target("target", kOutputs, kInputs, 0.5f, random);

  std::vector<float> input(kInputs), hidden(kHidden), error(kOutputs);
  for (int step = 1; step <= saves * kStepsPerSave; ++step) {
    float loss = 0;
    for (std::size_t sample = 0; sample < kBatch; ++sample) {
      for (float& x : input) x = random.Uniform();
      for (std::size_t h = 0; h < kHidden; ++h) {
        float sum = 0;
        for (std::size_t i = 0; i < kInputs; ++i) sum += first.value[h * kInputs + i] * input[i];
        hidden[h] = sum > 0 ? sum : 0;
      }
      for (std::size_t o = 0; o < kOutputs; ++o) {
        float sum = 0, wanted = 0;
        for (std::size_t h = 0; h < kHidden; ++h) sum += second.value[o * kHidden + h] * hidden[h];
        for (std::size_t i = 0; i < kInputs; ++i) wanted += target.value[o * kInputs + i] * input[i];
        error[o] = (sum - std::sin(wanted)) / kBatch;
        loss += error[o] * error[o] * kBatch;
      }
      for (std::size_t h = 0; h < kHidden; ++h) {
        if (hidden[h] <= 0) continue;
        float back = 0;
        for (std::size_t o = 0; o < kOutputs; ++o) {
          second.gradient[o * kHidden + h] += error[o] * hidden[h];
          back += error[o] * second.value[o * kHidden + h];
        }
        for (std::size_t i = 0; i < kInputs; ++i) first.gradient[h * kInputs + i] += back * input[i];
      }
    }
    first.Adam(step, 1e-4f);
    second.Adam(step, 1e-4f);
    if (step % kStepsPerSave == 0) {
      if (!Save(argv[1], {&first, &second}, step)) {
        std::perror(argv[1]);
        return 1;
      }
      std::printf("step %4d  loss %.4f  saved %s\n", step, static_cast<double>(loss), argv[1]);
    }
  }
  return 0;
}
