# SPDX-License-Identifier: GPL-2.0-or-later
"""A server on the loopback that plays Debian's mirror, its archive of the past and upstream,
for tests of the kit's programs.  The index is not signed; the programs of a test's project
are told to trust it.
"""

import gzip
import hashlib
import http.server
import io
import lzma
import os
import subprocess
import tarfile
import tempfile
import threading
import urllib.parse


def tar(top, files, packed=lzma.compress):
    """An archive of these files below the folder TOP."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w') as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f'{top}/{name}')
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return packed(out.getvalue())


def tar_gz(top, files):
    return tar(top, files, gzip.compress)


def deb(package, version, files):
    """A binary package that holds the source as linux-source does."""
    with tempfile.TemporaryDirectory(prefix='mrfd-deb-') as where:
        for folder in 'DEBIAN', 'usr/src':
            os.makedirs(f'{where}/root/{folder}')
        with open(f'{where}/root/DEBIAN/control', 'w', encoding='ascii') as file:
            file.write(f'Package: {package}\nVersion: {version}\nArchitecture: all\n'
                       'Maintainer: A Tester <a@example.org>\nDescription: source\n')
        with open(f'{where}/root/usr/src/{package}.tar.xz', 'wb') as file:
            file.write(tar(package, files))
        subprocess.run(['dpkg-deb', '--root-owner-group', '-b', f'{where}/root', f'{where}/deb'],
                       stdout=subprocess.DEVNULL, check=True)
        with open(f'{where}/deb', 'rb') as file:
            return file.read()


def tree_id(files):
    """The id that git gives a tree of these files."""
    with tempfile.TemporaryDirectory(prefix='mrfd-tree-') as where:
        env = {**os.environ, 'GIT_CONFIG_GLOBAL': os.devnull, 'GIT_CONFIG_NOSYSTEM': '1'}

        def git(*command):
            return subprocess.run(['git', *command], cwd=where, env=env, check=True, text=True,
                                  stdout=subprocess.PIPE).stdout.strip()
        git('init', '-q')
        for name, text in files.items():
            os.makedirs(os.path.dirname(f'{where}/{name}'), exist_ok=True)
            with open(f'{where}/{name}', 'w', encoding='ascii') as file:
                file.write(text)
        git('add', '-A', '-f')
        return git('write-tree')


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Server:
    """It serves $files, from path to content; of those in $cut half, though it announces all.
    $asked has the paths of all requests."""

    def __init__(self):
        self.files, self.cut, self.asked, self.indices = {}, set(), [], {}
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path = urllib.parse.unquote(self.path)  # apt quotes a ~
                outer.asked.append(path)
                data = outer.files.get(path)
                if '//' in path:
                    return self.send_error(400)
                if data is None:
                    return self.send_error(404)
                self.send_response(200)
                self.send_header('Content-Length', str(len(data)))
                self.end_headers()
                self.wfile.write(data[:len(data) // 2] if path in outer.cut else data)

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self.http.server_port}'
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join(10)

    def index(self, suite, packages='', sources=''):
        """What apt reads of a suite."""
        indices = {'main/binary-amd64/Packages': packages.encode(),
                   'main/source/Sources': sources.encode()}
        release = f'Suite: {suite}\nCodename: {suite}\nArchitectures: amd64\nComponents: main\n' \
            'Date: Sun, 01 Nov 2026 00:00:00 UTC\nValid-Until: Mon, 02 Nov 2026 00:00:00 UTC\n' \
            if suite == 'sid' else f'Suite: {suite}\nCodename: {suite}\nArchitectures: amd64\n' \
            'Components: main\nDate: Sun, 01 Nov 2026 00:00:00 UTC\n'
        release += 'SHA256:\n' + ''.join(f' {sha256(data)} {len(data)} {name}\n'
                                         for name, data in indices.items())
        for name, data in {**indices, 'Release': release.encode()}.items():
            self.files[f'/debian/dists/{suite}/{name}'] = data

    def debian(self, packages=(), sources=(), other=()):
        """The indices of the suites.  $packages are of backports: (name, version, path in the
        pool); $sources of stable and $other of unstable."""
        def source(entry):
            name, version, path = entry
            data = self.files.get(f'/debian/{path}', b'')
            folder, _, file = path.rpartition('/')
            return (f'Package: {name}\nBinary: {name}\nVersion: {version}\nFormat: 3.0 (quilt)\n'
                    f'Directory: {folder}\nChecksums-Sha256:\n {sha256(b"")} 0 {name}_{version}.dsc\n'
                    f' {sha256(data)} {len(data)} {file}\n\n')

        def package(entry):
            name, version, path = entry
            data = self.files.get(f'/debian/{path}', b'')
            return (f'Package: {name}\nVersion: {version}\nArchitecture: all\nFilename: {path}\n'
                    f'Size: {len(data)}\nSHA256: {sha256(data)}\nDescription: source\n\n')
        for suite in 'trixie', 'trixie-updates', 'trixie-backports', 'sid':
            self.index(suite,
                       ''.join(map(package, packages)) if suite.endswith('backports') else '',
                       ''.join(map(source, {'trixie': sources, 'sid': other}.get(suite, ()))))
