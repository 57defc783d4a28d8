// The engine's two kernels: products with packed weights, and attention of one query per row.
//
//   linear(x, weights, scales, biases)    y = x W^T + b for several W at once, each packed in panels by `packing.py`
//   attend(q, k, v, mask, rows, scale)    softmax(scale q k^T) v, reading only the keys that the mask keeps
//
// A panel holds PANEL output columns for all inputs, so a product reads its weights once, in order, for any number of
// rows. With few rows it is bound by memory, with many by arithmetic. Vectors are the extensions of GCC and clang
// (`vector_size`), so the same source serves AVX-512, AVX2 and NEON.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int64_t LANES = 16, TILE_ROWS = 12;  // 32 registers: 12 x 2 sums, 2 vectors of weights
#elif defined(__AVX2__)
constexpr int64_t LANES = 8, TILE_ROWS = 6;  // 16 registers
#else
constexpr int64_t LANES = 4, TILE_ROWS = 8;
#endif
constexpr int64_t VECTORS = 2, PANEL = LANES * VECTORS;
constexpr int64_t ROW_BLOCK = 4 * TILE_ROWS;    // rows whose inputs stay in a core's cache across panels
constexpr int64_t AHEAD = 12 * 1024;             // bytes of weights to prefetch
constexpr int64_t WORTH_A_THREAD = 1 << 15;      // multiplications below which a second thread does not pay off

using Floats = float __attribute__((vector_size(LANES * sizeof(float)), aligned(4)));
using Ints = int32_t __attribute__((vector_size(LANES * sizeof(int32_t)), aligned(4)));
using Bytes = int8_t __attribute__((vector_size(LANES), aligned(1)));

inline Floats load(const float* from) { return *reinterpret_cast<const Floats*>(from); }

inline Floats load(const int8_t* from) {
#if defined(__AVX512F__)  // GCC 12 converts bytes one by one
  return (Floats)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#elif defined(__AVX2__)
  return (Floats)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#else
  return __builtin_convertvector(*reinterpret_cast<const Bytes*>(from), Floats);
#endif
}

inline void store(float* to, Floats value) { *reinterpret_cast<Floats*>(to) = value; }

inline float sum(Floats value) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)value);
#else
  float lanes[LANES];
  store(lanes, value);
  for (int64_t half = LANES / 2; half; half /= 2)
    for (int64_t lane = 0; lane < half; lane++) lanes[lane] += lanes[lane + half];
  return lanes[0];
#endif
}

// ---------------------------------------------------------------------------------------------------------- products

template <class Weight>
struct Product {
  const Weight* panels;  // (panels, inputs, PANEL)
  const float *scale, *bias;
  float* y;  // (rows, outputs)
  int64_t outputs;
};

// ROWS rows of x times one panel; the sums stay in registers throughout. In float32 every row is summed in the same
// order, so it gets the same bits alone and in any batch. With int8 weights a single row would stall on its own
// additions, so it is summed in four chains.
template <int64_t ROWS, class Weight>
void multiply_tile(const float* x, int64_t inputs, const Weight* panel, float* y, int64_t y_stride, const float* scale,
                   const float* bias, int64_t columns) {
  constexpr int64_t CHAINS = sizeof(Weight) == 1 && ROWS == 1 ? 4 : 1;
  Floats chains[CHAINS][ROWS][VECTORS] = {};
  const auto add = [&](int64_t k, Floats sums[ROWS][VECTORS]) {
    Floats weight[VECTORS];
    for (int64_t v = 0; v < VECTORS; v++) weight[v] = load(panel + k * PANEL + v * LANES);
    for (int64_t row = 0; row < ROWS; row++) {
      const float value = x[row * inputs + k];
      for (int64_t v = 0; v < VECTORS; v++) sums[row][v] += value * weight[v];
    }
  };
  int64_t k = 0;
  for (; k + CHAINS <= inputs; k += CHAINS) {
    for (int64_t line = 0; line < CHAINS * PANEL * int64_t(sizeof(Weight)); line += 64)
      __builtin_prefetch(reinterpret_cast<const char*>(panel + k * PANEL) + AHEAD + line);
    for (int64_t chain = 0; chain < CHAINS; chain++) add(k + chain, chains[chain]);
  }
  for (; k < inputs; k++) add(k, chains[0]);
  for (int64_t chain = 1; chain < CHAINS; chain++)
    for (int64_t v = 0; v < VECTORS; v++) chains[0][0][v] += chains[chain][0][v];
  const auto& sums = chains[0];
  alignas(64) float whole[PANEL], scales[PANEL], biases[PANEL] = {};
  std::fill(scales, scales + PANEL, 1.0f);
  if (scale) std::copy(scale, scale + columns, scales);
  if (bias) std::copy(bias, bias + columns, biases);
  for (int64_t row = 0; row < ROWS; row++) {
    for (int64_t v = 0; v < VECTORS; v++) {
      const Floats scaled = scale ? sums[row][v] * load(scales + v * LANES) : sums[row][v];
      store(whole + v * LANES, scaled + load(biases + v * LANES));
    }
    std::memcpy(y + row * y_stride, whole, columns * sizeof(float));
  }
}

template <int64_t ROWS, class Weight>
void multiply_rest(int64_t rows, const float* x, int64_t inputs, const Weight* panel, float* y, int64_t y_stride,
                   const float* scale, const float* bias, int64_t columns) {
  if (rows == ROWS) return multiply_tile<ROWS>(x, inputs, panel, y, y_stride, scale, bias, columns);
  if constexpr (ROWS > 1) multiply_rest<ROWS - 1>(rows, x, inputs, panel, y, y_stride, scale, bias, columns);
}

template <class Weight>
void multiply(const float* x, int64_t rows, int64_t inputs, const std::vector<Product<Weight>>& products) {
  std::vector<int64_t> first = {0};  // the number of each product's first panel
  for (const auto& product : products) first.push_back(first.back() + (product.outputs + PANEL - 1) / PANEL);
  const int64_t panels = first.back(), blocks = (rows + ROW_BLOCK - 1) / ROW_BLOCK;

  const auto one = [&](int64_t number, int64_t row, int64_t stop) {
    const int64_t which = std::upper_bound(first.begin(), first.end(), number) - first.begin() - 1;
    const auto& product = products[which];
    const int64_t panel = number - first[which], column = panel * PANEL, outputs = product.outputs;
    const int64_t columns = std::min(PANEL, outputs - column);
    const Weight* weights = product.panels + panel * inputs * PANEL;
    const float* scale = product.scale ? product.scale + column : nullptr;
    const float* bias = product.bias ? product.bias + column : nullptr;
    const auto at = [&](int64_t row) { return product.y + row * outputs + column; };
    for (; row + TILE_ROWS <= stop; row += TILE_ROWS)
      multiply_tile<TILE_ROWS>(x + row * inputs, inputs, weights, at(row), outputs, scale, bias, columns);
    multiply_rest<TILE_ROWS - 1>(stop - row, x + row * inputs, inputs, weights, at(row), outputs, scale, bias, columns);
  };
  const auto share = [&](int64_t first_panel, int64_t last_panel, int64_t first_row, int64_t last_row) {
    for (int64_t row = first_row; row < last_row; row += ROW_BLOCK)
      for (int64_t panel = first_panel; panel < last_panel; panel++) one(panel, row, std::min(last_row, row + ROW_BLOCK));
  };

  const int64_t grain = std::max<int64_t>(1, WORTH_A_THREAD / (rows * inputs * PANEL));
  if (panels >= blocks)
    at::parallel_for(0, panels, grain, [&](int64_t begin, int64_t end) { share(begin, end, 0, rows); });
  else
    at::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
      share(0, panels, begin * ROW_BLOCK, std::min(rows, end * ROW_BLOCK));
    });
}

const float* data_or_null(const std::optional<at::Tensor>& values) {
  return values ? values->const_data_ptr<float>() : nullptr;
}

template <class Weight>
void multiply_all(const at::Tensor& x, int64_t inputs, const at::TensorList& weights, at::IntArrayRef outputs,
                  const c10::List<std::optional<at::Tensor>>& scales,
                  const c10::List<std::optional<at::Tensor>>& biases, std::vector<at::Tensor>& results) {
  std::vector<Product<Weight>> products;
  std::vector<std::optional<at::Tensor>> held;  // a list's elements are copies
  held.reserve(2 * weights.size());
  for (size_t i = 0; i < weights.size(); i++) {
    const auto& scale = held.emplace_back(scales.get(i));
    const auto& bias = held.emplace_back(biases.get(i));
    products.push_back({weights[i].const_data_ptr<Weight>(), data_or_null(scale), data_or_null(bias),
                        results[i].mutable_data_ptr<float>(), outputs[i]});
  }
  if (x.numel()) multiply<Weight>(x.const_data_ptr<float>(), x.numel() / inputs, inputs, products);
}

std::vector<at::Tensor> linear(const at::Tensor& input, at::TensorList weights, at::IntArrayRef outputs,
                               const c10::List<std::optional<at::Tensor>>& scales,
                               const c10::List<std::optional<at::Tensor>>& biases) {
  const auto x = input.contiguous();
  const int64_t inputs = x.size(-1);
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < weights.size(); i++) {
    TORCH_CHECK(weights[i].size(1) == inputs && weights[i].size(2) == PANEL, "packed for other inputs or a machine");
    auto sizes = x.sizes().vec();
    sizes.back() = outputs[i];
    results.push_back(at::empty(sizes, x.options()));
  }
  if (weights[0].scalar_type() == at::kChar)
    multiply_all<int8_t>(x, inputs, weights, outputs, scales, biases, results);
  else
    multiply_all<float>(x, inputs, weights, outputs, scales, biases, results);
  return results;
}

// --------------------------------------------------------------------------------------------------------- attention

// e^x for x <= 0: 2^n times a polynomial of the rest (the coefficients of Cephes' expf); 0 below the smallest float.
inline Floats exponential(Floats x) {
  const Floats turns = x * 1.44269504f;
  Ints whole = __builtin_convertvector(turns - 0.5f, Ints);  // towards 0: the nearest, for x <= 0
  const Floats n = __builtin_convertvector(whole, Floats);
  const Floats rest = x - n * 0.693359375f + n * 2.12194440e-4f;
  Floats power = rest * 1.9875691500e-4f + 1.3981999507e-3f;
  power = power * rest + 8.3334519073e-3f;
  power = power * rest + 4.1665795894e-2f;
  power = power * rest + 1.6666665459e-1f;
  power = power * rest + 5.0000001201e-1f;
  power = power * rest * rest + rest + 1.0f;
  whole = (whole + 127) << 23;
  Floats scale;
  std::memcpy(&scale, &whole, sizeof(scale));
  return x > -87.0f ? power * scale : Floats{};
}

// The keys that a query may see: their places in the buffer, and what the mask adds to their scores.
struct Seen {
  std::vector<int64_t> offsets;
  std::vector<float> bias;

  // Key s is stored in row rows[s], or in the query's own row.
  template <class Allowed>
  void find(int64_t keys, Allowed allowed, int64_t row, const int64_t* rows, int64_t row_stride, int64_t key_stride) {
    offsets.clear();
    bias.clear();
    for (int64_t s = 0; s < keys; s++)
      if (allowed(s)) offsets.push_back((rows ? rows[s] : row) * row_stride + s * key_stride);
  }
};

// scale q.k for COUNT keys at once
template <int64_t COUNT>
void score(const float* query, const float* keys, const int64_t* offsets, int64_t width, float scale, float* scores) {
  Floats sums[COUNT] = {};
  int64_t d = 0;
  for (; d + LANES <= width; d += LANES) {
    const Floats part = load(query + d);
    for (int64_t i = 0; i < COUNT; i++) sums[i] += part * load(keys + offsets[i] + d);
  }
  for (int64_t i = 0; i < COUNT; i++) {
    float total = sum(sums[i]);
    for (int64_t rest = d; rest < width; rest++) total += query[rest] * keys[offsets[i] + rest];
    scores[i] = total * scale;
  }
}

// COUNT vectors of the weighted sum of the values
template <int64_t COUNT>
void mix(const float* values, const std::vector<int64_t>& offsets, const float* weights, float* out) {
  Floats sums[COUNT] = {};
  for (size_t i = 0; i < offsets.size(); i++)
    for (int64_t v = 0; v < COUNT; v++) sums[v] += weights[i] * load(values + offsets[i] + v * LANES);
  for (int64_t v = 0; v < COUNT; v++) store(out + v * LANES, sums[v]);
}

// One query: scores of the keys it sees, their softmax, the weighted sum of the values. Without keys the result is 0.
void attend_one(const float* query, const float* keys, const float* values, const Seen& seen, float scale,
                int64_t width, std::vector<float>& scores, float* out) {
  const int64_t count = seen.offsets.size();
  scores.resize(count + LANES);
  float largest = -std::numeric_limits<float>::infinity(), total = 0;
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) score<4>(query, keys, &seen.offsets[i], width, scale, &scores[i]);
  for (; i < count; i++) score<1>(query, keys, &seen.offsets[i], width, scale, &scores[i]);
  for (i = 0; i < count; i++) {
    if (!seen.bias.empty()) scores[i] += seen.bias[i];
    largest = std::max(largest, scores[i]);
  }
  for (i = 0; i < count; i += LANES) store(&scores[i], exponential(load(&scores[i]) - largest));
  for (i = 0; i < count; i++) total += scores[i];
  for (i = 0; i < count; i++) scores[i] /= total;
  int64_t d = 0;
  for (; d + 4 * LANES <= width; d += 4 * LANES) mix<4>(values + d, seen.offsets, scores.data(), out + d);
  for (; d + LANES <= width; d += LANES) mix<1>(values + d, seen.offsets, scores.data(), out + d);
  for (; d < width; d++) {
    out[d] = 0;
    for (i = 0; i < count; i++) out[d] += scores[i] * values[seen.offsets[i] + d];
  }
}

// q (B, H, 1, K); k and v (rows, G, S, K). Row b reads the row rows[b] of k and v, key s of it the row rows[b, s].
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& mask,
                  const std::optional<at::Tensor>& rows, double scale) {
  TORCH_CHECK(q.size(2) == 1, "one query a row");
  TORCH_CHECK(q.stride(3) == 1 && k.stride(3) == 1 && k.strides() == v.strides(), "keys and values laid out alike");
  const int64_t batch = q.size(0), heads = q.size(1), width = q.size(3), keys = k.size(2), group = heads / k.size(1);
  auto mixed = at::empty({batch, heads, 1, width}, q.options());
  const at::Tensor wide = mask ? mask->expand({batch, heads, 1, keys}) : at::Tensor();
  const at::Tensor table = rows ? rows->contiguous() : at::Tensor();
  const int64_t* row_of = rows ? table.const_data_ptr<int64_t>() : nullptr;
  const bool by_key = rows && rows->dim() == 2;

  const auto find = [&](Seen& seen, int64_t b, int64_t h) {
    const int64_t row = row_of && !by_key ? row_of[b] : b;
    const int64_t* of_keys = by_key ? row_of + b * keys : nullptr;
    const auto all = [&](auto allowed) { seen.find(keys, allowed, row, of_keys, k.stride(0), k.stride(2)); };
    if (!mask) return all([](int64_t) { return true; });
    const int64_t at = b * wide.stride(0) + h * wide.stride(1), stride = wide.stride(3);
    if (wide.scalar_type() == at::kBool) {
      const bool* allowed = wide.const_data_ptr<bool>() + at;
      return all([=](int64_t s) { return allowed[s * stride]; });
    }
    const float* added = wide.const_data_ptr<float>() + at;
    const auto allowed = [=](int64_t s) { return added[s * stride] != -std::numeric_limits<float>::infinity(); };
    all(allowed);
    for (int64_t s = 0; s < keys; s++)
      if (allowed(s)) seen.bias.push_back(added[s * stride]);
  };

  const int64_t grain = std::max<int64_t>(1, WORTH_A_THREAD / (2 * keys * width));
  at::parallel_for(0, batch * heads, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> scores;
    Seen seen;
    for (int64_t task = begin; task < end; task++) {
      const int64_t b = task / heads, h = task % heads, head = h / group * k.stride(1);
      if (task == begin || h == 0 || (mask && wide.stride(1))) find(seen, b, h);  // most masks are the same for all heads
      attend_one(q.const_data_ptr<float>() + b * q.stride(0) + h * q.stride(1), k.const_data_ptr<float>() + head,
                 v.const_data_ptr<float>() + head, seen, static_cast<float>(scale), width, scores,
                 mixed.mutable_data_ptr<float>() + task * width);
    }
  });
  return mixed;
}

int64_t panel() { return PANEL; }

}  // namespace

TORCH_LIBRARY(glassformer, library) {
  library.def("linear(Tensor x, Tensor[] weights, int[] outputs, Tensor?[] scales, Tensor?[] biases) -> Tensor[]");
  library.def("attend(Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor? rows, float scale) -> Tensor");
  library.def("panel() -> int", panel);
}

TORCH_LIBRARY_IMPL(glassformer, CPU, library) {
  library.impl("linear", linear);
  library.impl("attend", attend);
}
