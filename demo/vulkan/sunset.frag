// SPDX-License-Identifier: GPL-2.0-or-later
#version 450

/*
 * A boat sails into the sunset
 *
 * This runs for each pixel of each frame.  All numbers are integers, so every device paints
 * the same bytes, and whoever knows the rules can compute a frame without a GPU:
 * kit/mrfd/sunset.py does it in another way, row by row, and both have to agree.
 *
 * A pixel is a word: the format XRGB8888 of a screen.
 */
layout(push_constant) uniform Push {
	int width;
	int height;
	int frame;
} push;

layout(location = 0) out uint pixel;

const int PERIOD = 64; /* frames; then all is where it was */

const ivec3 ZENITH = ivec3(22, 30, 74), DUSK = ivec3(250, 146, 84);
const ivec3 SHALLOW = ivec3(196, 104, 88), DEEP = ivec3(14, 34, 74);
const ivec3 SUN = ivec3(255, 240, 190), CLOUD = ivec3(255, 214, 190);
const ivec3 WAVE = ivec3(8, 20, 48);
const ivec3 SAIL = ivec3(246, 238, 222), JIB = ivec3(222, 196, 178);
const ivec3 MAST = ivec3(60, 40, 30), HULL = ivec3(70, 26, 34);

/* K parts of N are B, the others A. */
ivec3 blend(ivec3 a, ivec3 b, int k, int n)
{
	return (a * (n - k) + b * k) / n;
}

/* A number that looks random, always the same one for V. */
uint scatter(uint v)
{
	v *= 2654435761u;
	v ^= v >> 15;
	v *= 2246822519u;
	return v ^ v >> 13;
}

/* The clouds are ellipses, three times as wide as high, each with a speed of its own. */
bool in_cloud(ivec2 at, int phase)
{
	for (int i = 0; i < 4; i++) {
		ivec2 d = at - ivec2((i * 370 + 150 + phase * (2 + i)) % push.width, 90 + i * 48);
		int radius = 150 - i * 22;

		if (d.x * d.x + 9 * d.y * d.y <= radius * radius)
			return true;
	}
	return false;
}

ivec3 sky(ivec2 at, int horizon, ivec2 sun, int phase)
{
	ivec3 air = blend(ZENITH, DUSK, at.y, horizon);
	ivec2 d = at - sun;
	int square = d.x * d.x + d.y * d.y;

	if (in_cloud(at, phase))
		return blend(air, CLOUD, 3, 8);
	if (square <= 56 * 56)
		return SUN;
	if (square <= 96 * 96)
		return blend(air, SUN, 3, 8);
	if (square <= 150 * 150)
		return blend(air, SUN, 1, 8);
	return air;
}

/* The sea has bands of three rows.  A band may glitter below the sun, or be darker. */
ivec3 sea(ivec2 at, int horizon, int sun_x, int phase)
{
	int depth = at.y - horizon;
	uint r = scatter(uint(depth / 3 * PERIOD + phase / 2));
	ivec3 water = blend(SHALLOW, DEEP, depth, push.height - horizon);

	if ((r & 3u) != 0u) {
		int centre = sun_x + int((r >> 16) % 17u) - 8;
		int reach = 16 + depth / 3 + int((r >> 8) % 32u);

		if (abs(at.x - centre) <= reach)
			return blend(water, SUN, 4, 8);
	}
	return (r & 28u) == 0u ? blend(water, WAVE, 3, 8) : water;
}

/* What is seen at this place if the boat, whose keel is at KEEL, is in front of BEHIND. */
ivec3 boat(ivec2 at, ivec2 keel, ivec3 behind)
{
	ivec2 d = ivec2(at.x - keel.x, keel.y - at.y); /* d.y counts upwards */

	if (d.y > 0 && d.y <= 22)
		return abs(d.x) < 48 + d.y ? HULL : behind;
	if (d.y > 32 && d.y <= 180 && d.x >= 4 && d.x <= 4 + (180 - d.y) * 9 / 16)
		return SAIL;
	if (d.y > 32 && d.y <= 160 && d.x <= -4 && d.x >= -4 - (160 - d.y) * 7 / 16)
		return JIB;
	if (d.y > 22 && d.y <= 190 && abs(d.x) <= 1)
		return MAST;
	return behind;
}

void main()
{
	ivec2 at = ivec2(gl_FragCoord.xy);
	int phase = push.frame % PERIOD;
	int horizon = push.height * 5 / 8;
	ivec2 sun = ivec2(push.width / 8 + phase * 12, horizon - 200 + phase * 4);
	ivec2 keel = ivec2(push.width - push.width / 8 - phase * 10,
			   horizon + (push.height - horizon) * 3 / 10 + abs(phase % 8 - 4));
	ivec3 colour = at.y < horizon ? sky(at, horizon, sun, phase) :
					sea(at, horizon, sun.x, phase);

	colour = boat(at, keel, colour);
	pixel = 0xff000000u | uint(colour.r << 16 | colour.g << 8 | colour.b);
}
