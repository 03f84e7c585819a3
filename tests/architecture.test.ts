import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join, normalize } from 'node:path'

/** The table of docs/architecture.md. `types` may be imported as types only; `packages` are prefixes, `bun` its built-ins. */
interface Layer {
  readonly imports: readonly string[]
  readonly types?: readonly string[]
  readonly packages: readonly string[]
  readonly reserved?: RegExp
}

const impure =
  /\b(?:Math\.random|Date\.now|performance\.|process\.|Bun\.|fetch\(|set(?:Timeout|Interval|Immediate)\(|crypto\.|new Date\(\))/
const callsOut = /\bfetch\(/
const writesRows = /\.(?:insert|update|delete)\([a-z]\w*\)|\.transaction\(/

const layers: Readonly<Record<string, Layer>> = {
  vocabulary: { imports: [], packages: ['node:', 'bun'], reserved: callsOut },
  protocol: {
    imports: ['vocabulary'],
    packages: ['@noble/', '@sinclair/typebox', 'hash-wasm', 'js-sha3', 'node:crypto'],
    reserved: callsOut,
  },
  machines: { imports: ['vocabulary', 'protocol'], packages: ['xstate'], reserved: impure },
  listener: { imports: ['vocabulary'], packages: ['node:', 'bun'], reserved: callsOut },
  db: {
    imports: ['vocabulary'],
    types: ['protocol'],
    packages: ['drizzle-orm', 'postgres', 'node:', 'bun'],
    reserved: callsOut,
  },
  // Gateway and agent both stand on these two.
  transport: { imports: ['vocabulary'], packages: ['node:', 'bun'] },
  polling: { imports: ['vocabulary', 'transport', 'runtimes'], packages: [] },
  runtimes: { imports: ['vocabulary', 'protocol'], packages: ['@sinclair/typebox', 'minisearch', 'node:', 'bun'] },
  actors: {
    imports: ['vocabulary', 'protocol', 'transport', 'polling', 'machines', 'db', 'runtimes'],
    packages: ['xstate', 'elkjs', 'prom-client', 'postgres', 'viem', '@sinclair/typebox', '@noble/', 'node:', 'bun'],
  },
  http: {
    imports: ['vocabulary', 'protocol', 'listener', 'transport', 'machines', 'actors', 'db'],
    types: ['runtimes'],
    packages: ['elysia', '@elysiajs/', '@sinclair/typebox', 'prom-client', 'swagger-ui-dist', 'node:', 'bun'],
    reserved: new RegExp(`${callsOut.source}|${writesRows.source}`),
  },
  node: {
    imports: ['vocabulary', 'protocol', 'listener', 'transport', 'polling', 'runtimes'],
    packages: ['elysia', '@sinclair/typebox', '@noble/', 'node:', 'bun'],
  },
  'fake-node': { imports: ['vocabulary', 'protocol'], packages: ['elysia', '@sinclair/typebox', 'node:', 'bun'] },
  client: { imports: ['vocabulary', 'protocol'], packages: ['@noble/'] },
  console: { imports: [], types: ['protocol'], packages: ['preact', '@preact/signals'] },
  // What works on a gateway's storage beside the gateway, or without it.
  offline: { imports: ['vocabulary', 'db', 'actors'], packages: ['node:', 'bun'] },
  cli: { imports: ['vocabulary', 'protocol', 'client'], packages: ['@sinclair/typebox', 'node:', 'bun'] },
}
/** Files that stand above the table, and the rooms a single file may enter beyond its layer. */
const composition = ['src/main.ts']
const doors: Readonly<Record<string, readonly string[]>> = {
  'src/cli/serve.ts': ['main'],
  'src/cli/node.ts': ['node'],
  'src/cli/node-keys.ts': ['node'],
  'src/cli/offline.ts': ['offline'],
  'src/cli/fake-node.ts': ['fake-node'],
}

const importPattern =
  /^\s*(?:import|export)\s+(type\s)?(?:[^'"();]*?\sfrom\s+)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/gm

function layerOf(file: string): string {
  const [, first = '', second] = file.split('/')
  if (first === 'settings') return 'vocabulary'
  return second === undefined ? (first === 'main.ts' ? 'main' : 'vocabulary') : first
}

function withoutComments(source: string): string {
  return source.replaceAll(/\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*$/gm, '')
}

/** What is wrong with one import of one file; null when nothing is. */
function faultOf(file: string, target: string, typeOnly: boolean): string | null {
  const name = layerOf(file)
  const layer = layers[name]
  if (layer === undefined) return `${file}: no such layer in the table: ${name}`
  if (!target.startsWith('.')) {
    const reports = file.startsWith('src/http/reports/') && target.startsWith('drizzle-orm')
    const fits = layer.packages.some(
      (prefix) =>
        target === prefix ||
        target.startsWith(/[/:]$/.test(prefix) ? prefix : `${prefix}/`) ||
        (prefix === 'bun' && target.startsWith('bun:')),
    )
    return fits || reports ? null : `${file}: ${target} is not for ${name}`
  }
  const path = normalize(join(file, '..', target))
  const room = layerOf(path)
  if (path.startsWith('src/db/schema/') && name !== 'db') return `${file}: ${target}: tables are for src/db`
  const open =
    room === name ||
    layer.imports.includes(room) ||
    doors[file]?.includes(room) ||
    (typeOnly && layer.types?.includes(room))
  return open ? null : `${file}: ${target} is not for ${name}`
}

function faultsOf(file: string, source: string): string[] {
  if (composition.includes(file)) return []
  const code = withoutComments(source)
  const imports = [...code.matchAll(importPattern)].map((found) =>
    faultOf(file, found[2] ?? found[3] ?? '', found[1] !== undefined),
  )
  const reserved = layers[layerOf(file)]?.reserved?.exec(code)
  return [...imports, reserved ? `${file}: ${reserved[0]} is reserved` : null].filter((fault) => fault !== null)
}

test('every import, package and global keeps to the table of the layers', () => {
  const root = join(import.meta.dir, '..')
  const files = [...new Bun.Glob('src/**/*.{ts,tsx}').scanSync({ cwd: root })]
  expect(files.length).toBeGreaterThan(20)
  expect(files.flatMap((file) => faultsOf(file, readFileSync(join(root, file), 'utf8')))).toEqual([])
})

test('the check itself finds each kind of fault', () => {
  const faulty = {
    'src/machines/a.ts': "import { x } from '../actors/chat.ts'\nconst now = Date.now()",
    'src/protocol/a.ts': "import { Elysia } from 'elysia'",
    'src/actors/a.ts': "import {\n  nodes,\n} from '../db/schema/pool.ts'",
    'src/http/a.ts': "import { eq } from 'drizzle-orm'\ndb.insert(nodes)",
    'src/db/a.ts': "const { x } = await import('../src/protocol/receipt.ts')",
    'src/new-room/a.ts': "import '../src/time.ts'",
  }
  const counts = Object.entries(faulty).map(([file, source]) => faultsOf(file, source).length)
  expect(counts).toEqual([2, 1, 1, 2, 1, 1])
  expect(faultsOf('src/db/b.ts', "// fetch(x)\nimport type { NodeInfo } from '../protocol/wire/node.ts'")).toEqual([])
})

/** Files that parse JSON by themselves, and whose it is: a file or a text of our own, or what a user gave this very command. */
const ownJson: Readonly<Record<string, string>> = {
  'src/protocol/foreign-json.ts': 'after the scanner',
  'src/protocol/json-body.ts': 'after the scanner',
  'src/protocol/json-scan.ts': 'one key of a text that was scanned',
  'src/actors/statecharts.ts': 'a file of the build',
  'src/cli/audit-chain.ts': 'a file that the command wrote',
  'src/cli/credentials.ts': "the user's file",
  'src/cli/job-book.ts': 'a file that the command wrote',
  'src/cli/policy-options.ts': "the user's own policy",
  'src/data-folder.ts': 'a file of the data folder',
  'src/db/backup-text.ts': 'a backup',
  'src/db/embedded-binaries.ts': 'files of a package',
  'src/db/migrate.ts': 'the journal of the migrations',
  'src/http/openapi/schema.ts': 'a copy of our own schemas',
  'src/http/routes/receipts.ts': 'a receipt that was made a line before',
  'src/node/command-store.ts': "the agent's folder",
  'src/node/command-work.ts': "the agent's own answer",
  'src/node/node-receipt.ts': 'a receipt that was made a line before',
  'src/node/sealed-work.ts': 'a receipt that was made a line before',
  'src/private-files.ts': "the agent's folder",
}
const ownRooms = /^src\/(?:fake-node|console)\//
const bareParse = /\bJSON\.parse\b|(?<!failure)\.json\(\)/

test('nothing foreign is parsed but behind the scanner (`foreignJson`, `parseJson`)', () => {
  const root = join(import.meta.dir, '..')
  const files = [...new Bun.Glob('src/**/*.{ts,tsx}').scanSync({ cwd: root })].filter((file) => !ownRooms.test(file))
  const parsing = files.filter((file) => bareParse.test(withoutComments(readFileSync(join(root, file), 'utf8'))))
  expect(parsing.sort()).toEqual(Object.keys(ownJson).sort())
})
