import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { name, version } from '../package.json'
import { builtFiles, root } from './release/built-files.ts'
import { agentDeb, gatewayDeb } from './release/debian.ts'
import { buildExecutable } from './release/executable.ts'
import { npmPackage } from './release/npm-package.ts'
import { type Arch, ociImage } from './release/oci-image.ts'
import { billOfMaterials, formula, signedList, sumsText } from './release/papers.ts'
import { executableName, runtimeOf, type Target, targets } from './release/runtimes.ts'

/**
 * Makes all files of a release in `dist/release`. The same sources give the same bytes, in whatever folder.
 * Usage: `npm run release [-- --out FOLDER] [--address URL] [--key FILE] [--only npm,executables,deb,oci]`.
 *
 * `--address`: where the files will be, for Homebrew's formula. `--key`: 32 bytes in hexadecimal digits, which sign the list of files;
 * without it nothing is signed. It needs npm and, for the image, apt.
 */
const kinds = ['npm', 'executables', 'deb', 'oci'] as const

function option(flag: string): string | null {
  const at = process.argv.indexOf(flag)
  return at === -1 ? null : (process.argv[at + 1] ?? null)
}

function seedIn(file: string): Uint8Array {
  const text = readFileSync(file, 'utf8').trim()
  if (!/^[0-9a-f]{64}$/i.test(text)) throw new Error(`${file} must hold 32 bytes in hexadecimal digits`)
  return new Uint8Array(Buffer.from(text, 'hex'))
}

const out = resolve(option('--out') ?? join(root, 'dist/release'))
const address = (option('--address') ?? 'https://releases.invalid/penstock').replace(/\/+$/, '')
const only = option('--only')?.split(',') ?? kinds
const unknown = only.find((kind) => !kinds.some((known) => known === kind))
if (unknown !== undefined) throw new Error(`--only takes ${kinds.join(', ')}, not ${unknown}`)
const wants = (kind: (typeof kinds)[number]) => only.includes(kind)
// Read before the work begins.
const keyFile = option('--key')
const seed = keyFile === null ? null : seedIn(keyFile)

const files = await builtFiles()
const artefacts = new Map<string, Uint8Array>()
const work = mkdtempSync(join(root, '.run/release-'))

async function executable(target: Target): Promise<Uint8Array> {
  const outfile = join(work, executableName(target))
  await buildExecutable({ files, outfile, target: target.bunTarget, runtime: runtimeOf(target) })
  return new Uint8Array(readFileSync(outfile))
}

try {
  if (wants('npm')) artefacts.set(`penstock-${version}.tgz`, await npmPackage(files))
  const linux = new Map<Arch, Uint8Array>()
  for (const target of targets) {
    if (!wants('executables') && target.linuxArch === null) continue
    if (!wants('executables') && !wants('deb') && !wants('oci')) continue
    const bytes = await executable(target)
    if (wants('executables')) artefacts.set(executableName(target), bytes)
    if (target.linuxArch !== null) linux.set(target.linuxArch, bytes)
  }
  if (wants('deb')) {
    for (const [arch, bytes] of linux) artefacts.set(`penstock_${version}_${arch}.deb`, gatewayDeb(arch, bytes))
    artefacts.set(`penstock-node_${version}_all.deb`, agentDeb())
  }
  if (wants('oci')) artefacts.set(`penstock-${version}-oci.tar`, ociImage(linux))
  if (wants('executables')) artefacts.set('penstock.rb', new TextEncoder().encode(formula(artefacts, targets, address)))
  artefacts.set(`penstock-${version}.cdx.json`, new TextEncoder().encode(billOfMaterials(name)))
} finally {
  rmSync(work, { recursive: true, force: true })
}

mkdirSync(out, { recursive: true })
for (const [file, bytes] of artefacts) {
  writeFileSync(join(out, file), bytes, { mode: /^penstock-(?:linux|macos)/.test(file) ? 0o755 : 0o644 })
}
writeFileSync(join(out, 'SHA256SUMS'), sumsText(artefacts))
if (seed === null) {
  rmSync(join(out, 'SHA256SUMS.note'), { force: true })
} else {
  const { note, key } = signedList(artefacts, seed)
  writeFileSync(join(out, 'SHA256SUMS.note'), note)
  process.stdout.write(`Signed. SVC_UPDATE_KEY=${key}\n`)
}
for (const [file, { length }] of artefacts)
  process.stdout.write(`${(length / 1e6).toFixed(1).padStart(7)} MB  ${file}\n`)
process.stdout.write(`in ${relative(process.cwd(), out) || '.'}${seed === null ? ', not signed (--key FILE)' : ''}\n`)
