// Colour moments of generated image patches: a stand-in for the colour data of article 002, which
// is not public.
//
// A scene is 1024 patches of one generated image: a material (sky, foliage, brick, ...) gives it
// two colours and a texture, the scene varies both and is lit unevenly from one side to the other,
// and every pixel gets sensor noise and is rounded to 8 bits. So patches of a scene resemble each
// other, scenes of a material less so, materials overlap: structure as in photographs, and not a
// mixture of Gaussians.
// Moments after M. Stricker, M. Orengo, "Similarity of Color Images", SPIE 2420, 1995: the
// skewness is the cube root of the third central moment, so that all nine have the same unit.
#include "datasets/errors.hpp"
#include "datasets/generators.hpp"
#include "datasets/parallel.hpp"

#include <algorithm>
#include <cmath>

namespace clusterbench::datasets {
namespace {

constexpr std::size_t kChannels = 3;
constexpr std::size_t kSide = 16;              // pixels of a patch's side
constexpr std::size_t kPixels = kSide * kSide; // per patch
constexpr std::size_t kGrid = 32;              // patches of a scene's side
constexpr std::size_t kPatches = kGrid * kGrid;

using Colour = std::array<double, kChannels>;

enum class Texture { gradient, grain, stripes, bricks, spots };

struct Material {
  Colour dark, light; // the two colours, 0 to 255
  Texture texture;
  double variation; // between its scenes, in units of intensity
  double contrast;  // of the texture, 0 to 1
};

constexpr std::array kMaterials{
    Material{{70, 120, 200}, {190, 215, 245}, Texture::gradient, 14, 0.9}, // sky
    Material{{200, 80, 40}, {250, 190, 110}, Texture::gradient, 18, 1.0},  // sunset
    Material{{20, 50, 15}, {110, 150, 60}, Texture::grain, 16, 1.0},       // foliage
    Material{{60, 95, 30}, {130, 160, 70}, Texture::grain, 12, 0.6},       // meadow
    Material{{15, 45, 70}, {110, 160, 175}, Texture::stripes, 14, 0.8},    // water
    Material{{180, 155, 110}, {225, 205, 165}, Texture::grain, 10, 0.5},   // sand
    Material{{195, 185, 175}, {125, 55, 40}, Texture::bricks, 14, 1.0},    // brick
    Material{{60, 60, 65}, {150, 150, 150}, Texture::bricks, 16, 0.9},     // tiles
    Material{{70, 45, 25}, {150, 105, 65}, Texture::stripes, 14, 1.0},     // wood
    Material{{40, 90, 35}, {215, 60, 90}, Texture::spots, 20, 1.0},        // blossom
    Material{{225, 225, 230}, {250, 250, 252}, Texture::gradient, 5, 0.7}, // snow
    Material{{8, 10, 20}, {235, 215, 150}, Texture::spots, 12, 1.0},       // night lights
};

/// One pixel's random bits: a hash, since a Mersenne Twister word a pixel would cost more than the
/// pixel. Source: G. Steele et al., "Fast splittable pseudorandom number generators", 2014.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/// Rises from 0 to 1 and falls back as x goes from 0 to 1, and so on.
double triangle_wave(double x) {
  const double phase = x - std::floor(x);
  return phase < 0.5 ? 2 * phase : 2 - 2 * phase;
}

/// An image of kGrid x kGrid patches, computed pixel by pixel.
class Scene {
public:
  Scene(std::uint32_t seed, std::uint32_t number)
      : random_(std::array<std::uint32_t, 2>{seed, number}),
        material_(kMaterials[static_cast<std::size_t>(
            random_.randint(0, static_cast<std::int64_t>(kMaterials.size())))]) {
    for (std::size_t c = 0; c < kChannels; ++c) {
      const double common = material_.variation * random_.standard_normal();
      dark_[c] = material_.dark[c] + common + 0.4 * material_.variation * random_.standard_normal();
      light_[c] =
          material_.light[c] + common + 0.4 * material_.variation * random_.standard_normal();
    }
    // Direction and wavelength of stripes and gradients; sizes of bricks and spots, in pixels.
    slope_x_ = random_.uniform(-1, 1);
    slope_y_ = random_.uniform(-1, 1);
    wavelength_ = random_.uniform(6, 40);
    size_ = random_.uniform(7, 28);
    light_x_ = random_.uniform(-0.25, 0.25);
    light_y_ = random_.uniform(-0.25, 0.25);
    exposure_ = random_.uniform(0.8, 1.15);
    noise_ = random_.uniform(2, 10);
    salt_ = random_.next_uint64();
  }

  /// Writes the nine moments of one patch.
  void moments(std::size_t patch, double* out) const {
    std::array<std::int64_t, kChannels> s1{};
    std::array<std::int64_t, kChannels> s2{};
    std::array<std::int64_t, kChannels> s3{};
    const std::size_t x0 = patch % kGrid * kSide;
    const std::size_t y0 = patch / kGrid * kSide;
    for (std::size_t y = y0; y < y0 + kSide; ++y)
      for (std::size_t x = x0; x < x0 + kSide; ++x) {
        const std::uint64_t bits = mix(salt_ ^ (y * kGrid * kSide + x));
        const double t = shade(static_cast<double>(x), static_cast<double>(y), bits);
        const double lit = brightness(static_cast<double>(x), static_cast<double>(y));
        for (std::size_t c = 0; c < kChannels; ++c) {
          const auto byte = static_cast<double>(bits >> (8 * c) & 0xff);
          const double grain = noise_ * (byte / 255.0 - 0.5);
          const double value = lit * (dark_[c] + t * (light_[c] - dark_[c])) + grain;
          const auto level = static_cast<std::int64_t>(std::clamp(value, 0.0, 255.0) + 0.5);
          s1[c] += level;
          s2[c] += level * level;
          s3[c] += level * level * level;
        }
      }
    // Integer numerators are exact, so nothing cancels: n^2 m2 and n^3 m3 stay below 2^53.
    constexpr std::int64_t n = kPixels;
    constexpr double dn = kPixels;
    for (std::size_t c = 0; c < kChannels; ++c) {
      const std::int64_t m2 = n * s2[c] - s1[c] * s1[c];
      const std::int64_t m3 = n * n * s3[c] - 3 * n * s1[c] * s2[c] + 2 * s1[c] * s1[c] * s1[c];
      out[c] = static_cast<double>(s1[c]) / dn;
      out[kChannels + c] = std::sqrt(static_cast<double>(m2)) / dn;
      out[2 * kChannels + c] = std::cbrt(static_cast<double>(m3)) / dn;
    }
  }

private:
  /// How far a pixel is from the dark to the light colour, 0 to 1.
  double shade(double x, double y, std::uint64_t bits) const {
    constexpr double kExtent = kGrid * kSide;
    const double along = slope_x_ * x + slope_y_ * y;
    double t = 0.5;
    switch (material_.texture) {
    case Texture::gradient:
      t = 0.5 + along / (2 * kExtent);
      break;
    case Texture::grain:
      t = static_cast<double>(bits >> 24 & 0xffff) / 65535.0;
      t = 0.5 * t + 0.5 * triangle_wave(along / (8 * wavelength_));
      break;
    case Texture::stripes:
      t = triangle_wave(along / wavelength_);
      t *= t;
      break;
    case Texture::bricks: { // rows of bricks, every other shifted by half, mortar between
      const double row = std::floor(y / size_);
      const double u = x / (2 * size_) + 0.5 * row;
      const bool mortar = y / size_ - row < 0.15 || u - std::floor(u) < 0.08;
      t = mortar ? 0.0 : 0.75 + 0.25 * static_cast<double>(bits >> 24 & 0xff) / 255.0;
      break;
    }
    case Texture::spots: { // one round spot in each square cell, of the cell's own size and place
      const double column = std::floor(x / size_);
      const double row = std::floor(y / size_);
      const std::uint64_t cell = mix(salt_ + static_cast<std::uint64_t>(row * 4096 + column));
      const double dx = x / size_ - column - 0.3 - 0.4 * static_cast<double>(cell & 0xff) / 255.0;
      const double dy = y / size_ - row - 0.3 - 0.4 * static_cast<double>(cell >> 8 & 0xff) / 255.0;
      const double radius = 0.1 + 0.2 * static_cast<double>(cell >> 16 & 0xff) / 255.0;
      t = std::clamp(1.5 - (dx * dx + dy * dy) / (radius * radius), 0.0, 1.0);
      break;
    }
    }
    return std::clamp(0.5 + material_.contrast * (t - 0.5), 0.0, 1.0);
  }

  /// The light on a pixel: more on one side of the scene than on the other.
  double brightness(double x, double y) const {
    constexpr double kExtent = kGrid * kSide;
    return exposure_ * (1 + light_x_ * (x / kExtent - 0.5) + light_y_ * (y / kExtent - 0.5));
  }

  RandomState random_;
  Material material_;
  Colour dark_{}, light_{};
  double slope_x_, slope_y_, wavelength_, size_, light_x_, light_y_, exposure_, noise_;
  std::uint64_t salt_;
};

} // namespace

Array make_colour_moments(const ColourMomentsOptions& options, RowRange range) {
  constexpr std::size_t kMoments = 3 * kChannels;
  const RowRange rows = range.of(options.n);
  Array points = Array::allocate(ElementType::f64, rows.count, kMoments, "colour_moments");
  const std::span<double> out = points.writable_f64();
  const std::size_t end = rows.first + rows.count;
  const std::size_t first_scene = rows.first / kPatches;
  const std::size_t end_scene = rows.count == 0 ? first_scene : (end + kPatches - 1) / kPatches;
  parallel_blocks(end_scene - first_scene, [&](std::size_t index) {
    const std::size_t number = first_scene + index;
    const Scene scene(options.seed, static_cast<std::uint32_t>(number));
    const std::size_t first = number * kPatches;
    for (std::size_t i = std::max(first, rows.first); i < std::min(end, first + kPatches); ++i)
      scene.moments(i - first, &out[(i - rows.first) * kMoments]);
  });
  return points;
}

} // namespace clusterbench::datasets
