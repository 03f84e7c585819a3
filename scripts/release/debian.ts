import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { version } from '../../package.json'
import { bunSettingLines } from '../../src/host/bun-settings.ts'
import { agentUnit, gatewayUnit, type UnitParts } from '../../src/host/platform/systemd-unit.ts'
import { type ArchivedFile, ar, gzip, tar, withFolders } from './archives.ts'
import { root } from './built-files.ts'

/** As the executable of its platform was linked: below this glibc it does not start. */
const libcMin = '2.31'
const bytes = (text: string) => new TextEncoder().encode(text)

const parts = (kind: {
  readonly user: string
  readonly exec: string
  readonly words: readonly string[]
}): UnitParts => ({
  header: kind.words,
  scope: 'system',
  runAs: kind.user,
  stateFolder: kind.user,
  folder: `/var/lib/${kind.user}`,
  environment: [
    ...(kind.user === 'penstock' ? ['Environment=SVC_DATA_DIR=/var/lib/penstock/data'] : []),
    ...bunSettingLines.map((line) => `Environment=${line}`),
  ],
  environmentFile: `/etc/${kind.user}.env`,
  exec: [`ExecStart=${kind.exec}`],
})

/** Makes the user that the service runs as. Nothing starts by itself: it has no settings yet. */
const afterInstall = (user: string) => `#!/bin/sh
set -e
if [ "$1" = configure ] && [ -z "$DPKG_ROOT" ]; then
  id -u ${user} >/dev/null 2>&1 || useradd --system --home-dir /var/lib/${user} --shell /usr/sbin/nologin ${user}
  [ ! -d /run/systemd/system ] || systemctl daemon-reload
fi
`
const beforeRemoval = (user: string) => `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl disable --now ${user}.service || true
fi
`
const afterRemoval = `#!/bin/sh
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
`

interface Package {
  readonly name: string
  readonly arch: string
  readonly depends: string
  readonly recommends: string | null
  readonly summary: string
  readonly more: readonly string[]
  readonly files: readonly ArchivedFile[]
}

function deb({ name, arch, depends, recommends, summary, more, files }: Package): Uint8Array<ArrayBuffer> {
  const documents = `usr/share/doc/${name}`
  const copyright = {
    path: `${documents}/copyright`,
    bytes: new Uint8Array(readFileSync(join(root, 'LICENSE'))),
    mode: 0o644,
  }
  const all = [...files, copyright]
  const installed = Math.ceil(all.reduce((sum, file) => sum + file.bytes.length, 0) / 1_024)
  const control = [
    `Package: ${name}`,
    `Version: ${version}`,
    `Architecture: ${arch}`,
    'Maintainer: The maintainers of Penstock <maintainers@penstock.invalid>',
    `Installed-Size: ${installed}`,
    `Depends: ${depends}`,
    ...(recommends === null ? [] : [`Recommends: ${recommends}`]),
    'Section: net',
    'Priority: optional',
    `Description: ${summary}`,
    ...more.map((line) => ` ${line}`),
  ]
  const sums = all.map((file) => `${createHash('md5').update(file.bytes).digest('hex')}  ${file.path}`)
  const script = (path: string, text: string): ArchivedFile => ({ path, bytes: bytes(text), mode: 0o755 })
  const controls: readonly ArchivedFile[] = [
    { path: './control', bytes: bytes(`${control.join('\n')}\n`), mode: 0o644 },
    { path: './md5sums', bytes: bytes(`${sums.join('\n')}\n`), mode: 0o644 },
    script('./postinst', afterInstall(name)),
    script('./prerm', beforeRemoval(name)),
    script('./postrm', afterRemoval),
  ]
  const top = { path: './', bytes: new Uint8Array(), mode: 0o755 }
  return ar([
    { name: 'debian-binary', bytes: bytes('2.0\n') },
    { name: 'control.tar.gz', bytes: gzip(tar([top, ...controls])) },
    { name: 'data.tar.gz', bytes: gzip(tar([top, ...withFolders(all, './')])) },
  ])
}

/** The program and the service of the gateway. */
export function gatewayDeb(arch: 'amd64' | 'arm64', executable: Uint8Array): Uint8Array<ArrayBuffer> {
  const unit = gatewayUnit(
    parts({
      user: 'penstock',
      exec: '/usr/bin/penstock serve',
      words: [
        'DATABASE_URL and the secrets belong into /etc/penstock.env (0600). Then: systemctl enable --now penstock',
      ],
    }),
    null,
  )
  return deb({
    name: 'penstock',
    arch,
    depends: `libc6 (>= ${libcMin}), passwd`,
    recommends: 'postgresql (>= 18)',
    summary: 'gateway for model servers with one OpenAI-compatible address',
    more: [
      'Penstock gives the models on all computers that a person or a company',
      'owns one OpenAI-compatible address. This package has the program and',
      'the service of the gateway, which needs a PostgreSQL.',
    ],
    files: [
      { path: 'usr/bin/penstock', bytes: executable, mode: 0o755 },
      { path: 'usr/lib/systemd/system/penstock.service', bytes: bytes(unit), mode: 0o644 },
    ],
  })
}

/** The service of the agent, which runs the program of the other package. */
export function agentDeb(): Uint8Array<ArrayBuffer> {
  const folder = '/var/lib/penstock-node'
  const unit = agentUnit(
    parts({
      user: 'penstock-node',
      exec: `/usr/bin/penstock node --data-dir=${folder}/node`,
      words: [
        'Join a gateway once, and compare the words:',
        `  sudo -u penstock-node penstock node --data-dir ${folder}/node --gateway URL`,
        'Then end it with Ctrl-C, and: systemctl enable --now penstock-node',
      ],
    }),
  )
  return deb({
    name: 'penstock-node',
    arch: 'all',
    depends: `penstock (= ${version})`,
    recommends: null,
    summary: 'node agent of Penstock, beside the model servers of a computer',
    more: ['The agent makes this computer a node of a Penstock gateway. It dials', 'out, so no port needs to be open.'],
    files: [{ path: 'usr/lib/systemd/system/penstock-node.service', bytes: bytes(unit), mode: 0o644 }],
  })
}
