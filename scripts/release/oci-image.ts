import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { version } from '../../package.json'
import { bunSettingLines } from '../../src/host/bun-settings.ts'
import { type ArchivedFile, gzip, tar, withFolders } from './archives.ts'
import { root } from './built-files.ts'

/** Debian's C library, in which the executable runs: its version, and the SHA-256 of its package by architecture. */
const libc = {
  version: '2.36-9+deb12u14',
  sha256: {
    amd64: 'ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf',
    arm64: '01f4330719fd4f65580e16ea5a0527f372fca750e8f588d26deaf09f2d3b1cf4',
  },
} as const
/** What Bun is linked with, and what finds names. Every other file of the package stays out. */
const libraries = /^(?:ld-linux-\S+\.so\.\d|lib(?:c|m|dl|pthread|rt|resolv|nss_dns|nss_files)\.so\.\d)$/
/** Where the kernel looks for the loader. */
const loaders = { amd64: 'lib64/ld-linux-x86-64.so.2', arm64: 'lib/ld-linux-aarch64.so.1' } as const
const folders = { amd64: 'lib/x86_64-linux-gnu', arm64: 'lib/aarch64-linux-gnu' } as const

export type Arch = keyof typeof loaders

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
const text = (content: string) => new TextEncoder().encode(content)

function run(command: readonly string[], cwd: string): void {
  const { exitCode, stderr } = Bun.spawnSync([...command], { cwd })
  if (exitCode !== 0) throw new Error(`${command.join(' ')} failed: ${stderr.toString().slice(0, 2_000)}`)
}

/**
 * Fetches Debian's C library by apt, in a folder of its own so that the computer's apt keeps its state, and unpacks it. Returns the folder.
 * Throws where Debian has another version by now: then raise the one above.
 */
function unpackedLibc(arch: Arch): string {
  const kept = join(root, '.run/libc', `${libc.version}-${arch}`)
  if (existsSync(kept)) return kept
  mkdirSync(join(root, '.run/libc'), { recursive: true })
  const work = mkdtempSync(join(root, '.run/libc/fetch-'))
  try {
    for (const folder of ['state/lists/partial', 'cache/archives/partial', 'fetched']) {
      mkdirSync(join(work, folder), { recursive: true })
    }
    writeFileSync(join(work, 'status'), '')
    const options = {
      'APT::Architecture': arch,
      'APT::Architectures': arch,
      'APT::Sandbox::User': 'root',
      'Dir::State': join(work, 'state'),
      'Dir::State::status': join(work, 'status'),
      'Dir::Cache': join(work, 'cache'),
    }
    const apt = ['apt-get', ...Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`])]
    run([...apt, 'update'], work)
    run([...apt, 'download', `libc6=${libc.version}`], join(work, 'fetched'))
    const [name = ''] = readdirSync(join(work, 'fetched'))
    const file = join(work, 'fetched', name)
    if (sha256(readFileSync(file)) !== libc.sha256[arch]) throw new Error(`${name} is not the package that was named`)
    run(['dpkg-deb', '-x', file, join(work, 'tree')], work)
    if (!existsSync(kept)) renameSync(join(work, 'tree'), kept)
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
  return kept
}

function libcLayer(arch: Arch): readonly ArchivedFile[] {
  const tree = unpackedLibc(arch)
  const read = (path: string, mode: number, from = path) => ({
    path,
    bytes: new Uint8Array(readFileSync(join(tree, from))),
    mode,
  })
  const folder = folders[arch]
  const names = readdirSync(join(tree, folder))
    .filter((name) => libraries.test(name))
    .sort()
  const loader = names.find((name) => name.startsWith('ld-linux')) ?? ''
  return [
    read(loaders[arch], 0o755, `${folder}/${loader}`),
    ...names.map((name) => read(`${folder}/${name}`, 0o755)),
    read('usr/share/doc/libc6/copyright', 0o644),
  ]
}

/** `nonroot` of other small images, so that volumes keep their owner. */
const userId = 65_532

const programLayer = (executable: Uint8Array): readonly ArchivedFile[] => [
  {
    path: 'etc/passwd',
    bytes: text(`root:x:0:0:root:/:/none\npenstock:x:${userId}:${userId}::/data:/none\n`),
    mode: 0o644,
  },
  { path: 'etc/group', bytes: text(`root:x:0:\npenstock:x:${userId}:\n`), mode: 0o644 },
  { path: 'etc/nsswitch.conf', bytes: text('hosts: files dns\n'), mode: 0o644 },
  { path: 'usr/local/bin/penstock', bytes: executable, mode: 0o755 },
]

/** The program closes its data folder to others, so it must own it; a volume there takes the owner over. */
const ownFolders: readonly ArchivedFile[] = [
  { path: 'data/', bytes: new Uint8Array(), mode: 0o700, owner: userId },
  { path: 'tmp/', bytes: new Uint8Array(), mode: 0o1777 },
]

interface Blob {
  readonly mediaType: string
  readonly digest: string
  readonly size: number
}

const imageType = 'application/vnd.oci.image'

/** An image for each architecture, as one tar file in OCI's layout. */
export function ociImage(executables: ReadonlyMap<Arch, Uint8Array>): Uint8Array<ArrayBuffer> {
  const blobs = new Map<string, Uint8Array>()
  const put = (mediaType: string, bytes: Uint8Array): Blob => {
    const hex = sha256(bytes)
    blobs.set(hex, bytes)
    return { mediaType, digest: `sha256:${hex}`, size: bytes.length }
  }
  const json = (mediaType: string, value: object) => put(mediaType, text(JSON.stringify(value)))
  const manifests = [...executables].map(([architecture, executable]) => {
    const plain = [
      tar(withFolders(libcLayer(architecture))),
      tar([...withFolders(programLayer(executable)), ...ownFolders]),
    ]
    const layers = plain.map((layer) => put(`${imageType}.layer.v1.tar+gzip`, gzip(layer)))
    const config = json(`${imageType}.config.v1+json`, {
      architecture,
      os: 'linux',
      config: {
        User: `${userId}:${userId}`,
        Env: ['SVC_HOST=0.0.0.0', 'SVC_DATA_DIR=/data', ...bunSettingLines, 'PATH=/usr/local/bin'],
        Entrypoint: ['/usr/local/bin/penstock'],
        Cmd: ['serve'],
        ExposedPorts: { '7070/tcp': {} },
        StopSignal: 'SIGTERM',
        WorkingDir: '/data',
        Labels: { 'org.opencontainers.image.version': version, 'org.opencontainers.image.licenses': 'Apache-2.0' },
      },
      rootfs: { type: 'layers', diff_ids: plain.map((layer) => `sha256:${sha256(layer)}`) },
    })
    const manifest = json(`${imageType}.manifest.v1+json`, {
      schemaVersion: 2,
      mediaType: `${imageType}.manifest.v1+json`,
      config,
      layers,
    })
    return { ...manifest, platform: { os: 'linux', architecture } }
  })
  const index = { schemaVersion: 2, mediaType: `${imageType}.index.v1+json`, manifests }
  // `docker load` takes the name from the index.
  const annotations = {
    'org.opencontainers.image.ref.name': version,
    'io.containerd.image.name': `penstock:${version}`,
  }
  const top = put(`${imageType}.index.v1+json`, text(JSON.stringify(index)))
  const file = (path: string, bytes: Uint8Array): ArchivedFile => ({ path, bytes, mode: 0o644 })
  return tar(
    withFolders([
      file('oci-layout', text(JSON.stringify({ imageLayoutVersion: '1.0.0' }))),
      file(
        'index.json',
        text(JSON.stringify({ schemaVersion: 2, mediaType: top.mediaType, manifests: [{ ...top, annotations }] })),
      ),
      ...[...blobs].sort(([a], [b]) => (a < b ? -1 : 1)).map(([hex, bytes]) => file(`blobs/sha256/${hex}`, bytes)),
    ]),
  )
}
