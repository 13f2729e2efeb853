#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "weft/element/gll.hpp"

using weft::element::gll;
using weft::element::interpolation;

TEST(Gll, QuadratureIsExactToDegree2NMinus1AndNotBeyond) {
  for (int order = 1; order <= 15; ++order) {
    const auto& g = gll(order);
    auto error = [&](int degree) {
      double sum = 0;
      for (int i = 0; i <= order; ++i) sum += g.weights[i] * std::pow(g.points[i], degree);
      return std::abs(sum - (degree % 2 == 0 ? 2.0 / (degree + 1) : 0.0));
    };
    for (int degree = 0; degree < 2 * order; ++degree) EXPECT_LT(error(degree), 1e-15) << order << " " << degree;
    EXPECT_GT(error(2 * order), 1e-10) << order;
  }
}

TEST(Gll, DerivativeIsExactForEveryMonomialOfItsDegree) {
  for (int order = 1; order <= 15; ++order) {
    const auto& g = gll(order);
    for (int degree = 0; degree <= order; ++degree) {
      for (int i = 0; i <= order; ++i) {
        double sum = 0;
        for (int m = 0; m <= order; ++m) sum += g.derivative[i * (order + 1) + m] * std::pow(g.points[m], degree);
        const double exact = degree == 0 ? 0.0 : degree * std::pow(g.points[i], degree - 1);
        EXPECT_NEAR(sum, exact, 4e-14 * order) << order << " " << degree << " " << i;
      }
    }
  }
}

TEST(Gll, TablesOfOrders1To4AreTheKnownOnes) {
  const double a = std::sqrt(1.0 / 5.0), b = std::sqrt(3.0 / 7.0);
  const std::vector<std::vector<double>> points{{-1, 1}, {-1, 0, 1}, {-1, -a, a, 1}, {-1, -b, 0, b, 1}};
  const std::vector<std::vector<double>> weights{
      {1, 1}, {1 / 3., 4 / 3., 1 / 3.}, {1 / 6., 5 / 6., 5 / 6., 1 / 6.}, {.1, 49 / 90., 32 / 45., 49 / 90., .1}};
  for (int order = 1; order <= 4; ++order) {
    for (int i = 0; i <= order; ++i) {
      EXPECT_NEAR(gll(order).points[i], points[order - 1][i], 2e-16);
      EXPECT_NEAR(gll(order).weights[i], weights[order - 1][i], 3e-16);
    }
  }
  EXPECT_EQ(gll(1).derivative, (std::vector<double>{-.5, .5, -.5, .5}));
  EXPECT_EQ(gll(2).derivative, (std::vector<double>{-1.5, 2, -.5, -.5, 0, .5, .5, -2, 1.5}));
}

TEST(Gll, PointsAreSymmetricToTheLastBit) {
  for (int order = 1; order <= 15; ++order) {
    const auto& g = gll(order);
    for (int i = 0; i <= order; ++i) {
      EXPECT_EQ(g.points[i], -g.points[order - i]);
      EXPECT_EQ(g.weights[i], g.weights[order - i]);
    }
  }
}

TEST(Gll, OrdersOutsideTheRangeAreRefusedByName) {
  for (int order : {-1, 0, 16}) {
    try {
      gll(order);
      FAIL() << order;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("order " + std::to_string(order)), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("between 1 and 15"), std::string::npos);
    }
  }
}

TEST(Interpolation, ReproducesPolynomialsAndHitsNodesExactly) {
  const auto &from = gll(6), &to = gll(9);
  const auto matrix = interpolation(from.points, to.points);
  for (int i = 0; i <= 9; ++i) {
    for (int degree = 0; degree <= 6; ++degree) {
      double sum = 0;
      for (int j = 0; j <= 6; ++j) sum += matrix[i * 7 + j] * std::pow(from.points[j], degree);
      EXPECT_NEAR(sum, std::pow(to.points[i], degree), 1e-15 * 7);
    }
  }
  EXPECT_EQ(matrix.front(), 1.0);
  EXPECT_EQ(matrix[1], 0.0);
  EXPECT_EQ(matrix.back(), 1.0);
}
