// SPDX-License-Identifier: GPL-2.0-or-later
#version 450

/* A triangle that covers the whole picture: its corners are (-1, -1), (3, -1) and (-1, 3). */
void main()
{
	gl_Position = vec4(gl_VertexIndex == 1 ? 3 : -1, gl_VertexIndex == 2 ? 3 : -1, 0, 1);
}
