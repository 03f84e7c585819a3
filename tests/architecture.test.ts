import { expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** Who may import which packages and layers. `types` may be imported as types only; `packages` are prefixes, `bun` its built-ins. */
interface Layer {
  readonly imports: readonly string[]
  readonly types?: readonly string[]
  readonly packages: readonly string[]
  readonly reserved?: RegExp
}

const root = join(import.meta.dir, '..')
const architecture = readFileSync(join(root, 'docs/architecture.md'), 'utf8')

const impure =
  /\b(?:Math\.random|Date\.now|performance\.|process\.|Bun\.|fetch\(|set(?:Timeout|Interval|Immediate)\(|crypto\.|new Date\(\))/
const callsOut = /\bfetch\(/
const writesRows = /\.(?:insert|update|delete)\([a-z]\w*\)|\.transaction\(/

const layers: Readonly<Record<string, Layer>> = {
  vocabulary: { imports: [], packages: ['@homebridge/', 'node:', 'bun'], reserved: callsOut },
  // The kinds of money: what wire, database and page have in common.
  money: { imports: ['vocabulary'], packages: [] },
  protocol: {
    imports: ['vocabulary', 'money'],
    packages: [
      '@noble/',
      '@panva/hpke-noble',
      '@scure/bip39/',
      '@sinclair/typebox',
      'hash-wasm',
      'hpke',
      'js-sha3',
      'node:crypto',
    ],
    reserved: callsOut,
  },
  machines: { imports: ['vocabulary', 'money', 'protocol'], packages: ['xstate'], reserved: impure },
  listener: { imports: ['vocabulary'], packages: ['elysia', 'node:', 'bun'], reserved: callsOut },
  db: {
    imports: ['vocabulary', 'money'],
    types: ['protocol'],
    packages: ['drizzle-orm', 'postgres', 'node:', 'bun'],
    reserved: callsOut,
  },
  // Gateway and agent both stand on these two.
  transport: { imports: ['vocabulary'], packages: ['node:', 'bun'] },
  polling: { imports: ['vocabulary', 'transport', 'runtimes'], types: ['protocol'], packages: [] },
  runtimes: { imports: ['vocabulary', 'protocol'], packages: ['@sinclair/typebox', 'minisearch', 'node:', 'bun'] },
  // Who is on the local network: gateways that announce themselves, model servers of a range.
  discovery: {
    imports: ['vocabulary', 'protocol', 'transport', 'polling', 'runtimes'],
    packages: ['dns-packet', 'multicast-dns', 'node:', 'bun'],
  },
  // What each kind of inference is, for gateways and agents alike.
  operations: {
    imports: ['vocabulary', 'protocol', 'machines', 'runtimes'],
    types: ['polling'],
    packages: ['@sinclair/typebox'],
    reserved: callsOut,
  },
  actors: {
    imports: [
      ...[
        'vocabulary',
        'money',
        'protocol',
        'operations',
        'transport',
        'polling',
        'machines',
        'db',
        'runtimes',
        'discovery',
      ],
    ],
    packages: [
      'xstate',
      'prom-client',
      'postgres',
      'viem',
      'openid-client',
      '@sinclair/typebox',
      '@noble/',
      'node:',
      'bun',
    ],
  },
  // What runs in the gateway reaches an action through its context, so that command line and console can read actions, too.
  actions: {
    imports: ['vocabulary', 'protocol'],
    types: ['machines', 'actors', 'db', 'http'],
    packages: ['@sinclair/typebox'],
    reserved: impure,
  },
  http: {
    imports: [
      ...[
        'vocabulary',
        'money',
        'protocol',
        'discovery',
        'listener',
        'transport',
        'machines',
        'operations',
        'actors',
        'actions',
        'db',
      ],
    ],
    types: ['runtimes'],
    packages: ['elysia', '@elysiajs/', '@sinclair/typebox', 'prom-client', 'swagger-ui-dist', 'node:', 'bun'],
    reserved: new RegExp(`${callsOut.source}|${writesRows.source}`),
  },
  processes: {
    imports: ['vocabulary', 'protocol', 'listener', 'operations', 'actors', 'actions', 'http', 'db'],
    types: ['transport'],
    packages: ['elysia', '@sinclair/typebox', 'node:', 'bun'],
    reserved: callsOut,
  },
  node: {
    imports: ['vocabulary', 'protocol', 'machines', 'operations', 'listener', 'transport', 'polling', 'runtimes'],
    packages: ['elysia', 'xstate', '@sinclair/typebox', '@noble/', 'node:', 'bun'],
  },
  'fake-node': { imports: ['vocabulary', 'protocol'], packages: ['elysia', '@sinclair/typebox', 'node:', 'bun'] },
  client: {
    imports: ['vocabulary', 'protocol'],
    packages: ['@noble/', '@peculiar/x509', '@phala/dcap-qvl', 'reflect-metadata'],
  },
  // Imports the pages of docs/integrations, as texts.
  guides: { imports: ['integrations', 'vocabulary'], packages: [] },
  // Of the actions the macro that makes its forms, when the page is bundled.
  console: {
    imports: ['guides', 'actions', 'money'],
    types: ['protocol', 'client'],
    packages: ['preact', '@preact/signals', 'uplot', '@noble/hashes'],
  },
  // In a browser, with the verifier that the command has.
  'verify-page': { imports: ['vocabulary', 'protocol'], packages: ['@noble/'] },
  // The documents as pages, made in a thread of their own, and their script in a browser.
  manual: { imports: ['vocabulary', 'actors'], packages: ['marked', 'minisearch', 'node:', 'bun'] },
  // What works on a gateway's storage beside the gateway, or without it.
  offline: { imports: ['vocabulary', 'protocol', 'polling', 'machines', 'db', 'actors'], packages: ['node:', 'bun'] },
  cli: {
    imports: ['vocabulary', 'money', 'protocol', 'operations', 'actions', 'client', 'discovery', 'guides'],
    packages: ['@sinclair/typebox', 'node:', 'bun'],
  },
}
/** Files that stand above the table, and the rooms a single file may enter beyond its layer. */
const composition = ['src/main.ts']
const doors: Readonly<Record<string, readonly string[]>> = {
  'src/cli/commands/gateway/serve.ts': ['main'],
  'src/cli/commands/nodes/node.ts': ['node'],
  'src/cli/commands/nodes/node-given.ts': ['node'],
  'src/cli/commands/nodes/node-join.ts': ['node'],
  'src/cli/commands/nodes/node-keys.ts': ['node'],
  'src/cli/commands/nodes/node-power.ts': ['node'],
  'src/cli/commands/nodes/node-pulls.ts': ['node'],
  'src/cli/commands/nodes/node-payee.ts': ['node'],
  'src/cli/commands/nodes/node-service.ts': ['node'],
  'src/cli/commands/nodes/node-status.ts': ['node'],
  'src/cli/commands/nodes/servers-here.ts': ['node'],
  'src/cli/commands/gateway/backups.ts': ['offline'],
  'src/cli/commands/gateway/offline.ts': ['offline'],
  'src/cli/commands/gateway/doctor.ts': ['offline'],
  'src/cli/commands/gateway/chain.ts': ['offline'],
  'src/cli/commands/gateway/fake-node.ts': ['fake-node'],
  // A mixture that the gateway cannot read runs at the door, by the same rules.
  'src/cli/seal/sealed-mixture.ts': ['machines'],
  // The ports of a start, by the start's own check.
  'src/offline/doctor.ts': ['processes'],
}

/** Packages that one room has to itself. */
const confined: Readonly<Record<string, string>> = {
  viem: 'src/actors/money',
  'openid-client': 'src/actors/operators',
  uplot: 'src/console/plots',
  'prom-client': 'src/actors/telemetry',
  '@homebridge': 'src/host',
  // Large, and for those who ask for it: a page that seals carries none of it.
  '@peculiar': 'src/client/attestation',
  '@phala': 'src/client/attestation',
  'reflect-metadata': 'src/client/attestation',
}
const filesPerRoomMax = 20
const filesPerWalkMax = 8

const importPattern =
  /^\s*(?:import|export)\s+(type\s)?(?:[^'"();]*?\sfrom\s+)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/gm

function layerOf(file: string): string {
  const [, first = '', second] = file.split('/')
  if (first === 'settings' || first === 'host') return 'vocabulary'
  if (file.startsWith('src/protocol/money/')) return 'money'
  if (file.startsWith('src/actors/operations/')) return 'operations'
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
    const owner = confined[target.split('/')[0] ?? '']
    if (owner !== undefined && dirname(file) !== owner) return `${file}: ${target} is for ${owner}`
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
    'src/db/a.ts': "const { x } = await import('../src/protocol/receipts/receipt.ts')",
    'src/new-room/a.ts': "import '../src/time.ts'",
  }
  const counts = Object.entries(faulty).map(([file, source]) => faultsOf(file, source).length)
  expect(counts).toEqual([2, 1, 1, 2, 1, 1])
  expect(faultsOf('src/db/b.ts', "// fetch(x)\nimport type { NodeInfo } from '../protocol/wire/node.ts'")).toEqual([])
})

interface Room {
  readonly path: string
  readonly firstFile: string
  readonly sentence: readonly string[]
}

/** The rows of docs/architecture.md#rooms, from the top of the house to its ground. */
function documentedRooms(): Room[] {
  const rows = architecture.matchAll(/^\| `(src[\w/-]*)` \| `([\w.-]+)` \| (.+) \| (.+) \| (.+) \|$/gm)
  return [...rows].map(([, path = '', firstFile = '', ...sentence]) => ({ path, firstFile, sentence }))
}

const roomOf = (file: string): string => (file === 'src/main.ts' ? 'src/processes' : dirname(file))

/** Imports of `file` that lead to a room above its own. */
function wayBack(file: string, source: string, places: ReadonlyMap<string, number>): string[] {
  const here = places.get(roomOf(file)) ?? 0
  return [...withoutComments(source).matchAll(importPattern)].flatMap((found) => {
    const target = found[2] ?? found[3] ?? ''
    if (!target.startsWith('.')) return []
    const path = normalize(join(file, '..', target))
    // Texts, which are no rooms.
    if (path === 'package.json' || path.startsWith('docs/')) return []
    const starts = doors[file]?.includes('main') && path === 'src/main.ts'
    return !starts && (places.get(roomOf(path)) ?? -1) < here ? [`${file} → ${path}`] : []
  })
}

test('every room has its row, its first file and at most 20 files, and imports only rooms below it', () => {
  const files = [...new Bun.Glob('src/**/*.{ts,tsx}').scanSync({ cwd: root })]
  const rooms = documentedRooms()
  expect(rooms.map((room) => room.path).sort()).toEqual([...new Set(files.map((file) => dirname(file)))].sort())
  expect(rooms.filter((room) => !existsSync(join(root, room.path, room.firstFile)))).toEqual([])
  const crowded = rooms.filter(({ path }) => files.filter((file) => dirname(file) === path).length > filesPerRoomMax)
  expect(crowded).toEqual([])
  const places = new Map(rooms.map((room, place) => [room.path, place]))
  expect(files.flatMap((file) => wayBack(file, readFileSync(join(root, file), 'utf8'), places))).toEqual([])
  // The check itself finds a way back, also a type's.
  expect(wayBack('src/db/a.ts', "import type { Chat } from '../actors/chat/chat.ts'", places)).toHaveLength(1)
})

/** Files of one room that import each other in a ring, each ring once. */
function rings(imports: ReadonlyMap<string, readonly string[]>): string[][] {
  const reaches = (from: string, to: string): boolean => {
    const seen = new Set<string>()
    const ahead = [...(imports.get(from) ?? [])]
    for (let file = ahead.pop(); file !== undefined; file = ahead.pop()) {
      if (file === to) return true
      if (seen.has(file)) continue
      seen.add(file)
      ahead.push(...(imports.get(file) ?? []))
    }
    return false
  }
  const ring = (file: string) =>
    [...imports.keys()].filter((other) => other === file || (reaches(file, other) && reaches(other, file)))
  const found = [...imports.keys()].map(ring).filter((files) => files.length > 1)
  return [...new Map(found.map((files) => [files.join(), files])).values()]
}

/** Imports of types count, too: who reads a file must not need one that needs it. */
function importsInRoom(file: string, source: string): readonly string[] {
  return [...withoutComments(source).matchAll(importPattern)]
    .map((found) => found[2] ?? found[3] ?? '')
    .filter((target) => target.startsWith('./') && !target.slice(2).includes('/'))
    .map((target) => normalize(join(file, '..', target)))
}

test('no files of one room import each other in a ring', () => {
  const files = [...new Bun.Glob('src/**/*.{ts,tsx}').scanSync({ cwd: root })]
  const imports = files.map((file) => [file, importsInRoom(file, readFileSync(join(root, file), 'utf8'))] as const)
  expect(rings(new Map(imports))).toEqual([])
  // The check itself finds a ring of three, also of types.
  const ring = ['a', 'b', 'c'].map((name, at) => {
    const next = ['b', 'c', 'a'][at]
    return [`src/x/${name}.ts`, importsInRoom(`src/x/${name}.ts`, `import type { X } from './${next}.ts'`)] as const
  })
  expect(rings(new Map([...ring, ['src/x/d.ts', ['src/x/a.ts']]]))).toEqual([ring.map(([file]) => file)])
})

test("a newcomer's walks run down the house, in at most 8 files each", () => {
  const places = new Map(documentedRooms().map((room, place) => [room.path, place]))
  const [, section = ''] = architecture.split("## A newcomer's walk")
  const walks = (section.split('\n## ')[0] ?? '').split(/^\*\*/m).slice(1)
  expect(walks).toHaveLength(4)
  for (const walk of walks) {
    const files = [...walk.matchAll(/^\d+\. `([\w./-]+)`/gm)].map((found) => found[1] ?? '')
    expect(files.length).toBeGreaterThan(3)
    expect(files.length).toBeLessThanOrEqual(filesPerWalkMax)
    expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([])
    // SQL functions stand beside the tables, below every room of code but the shared words.
    const route = files.map((file) => places.get(dirname(file)) ?? (file.endsWith('.sql') ? places.get('src/db') : -1))
    expect(route).toEqual(route.toSorted((a = 0, b = 0) => a - b))
  }
})

/** Files with an interval of their own, and why it is no loop of `src/host/loop.ts`. */
const ownIntervals: Readonly<Record<string, string>> = {
  'src/actors/relay/ticker.ts': 'on the path of every chunk',
  'src/console/parts/small.tsx': 'in a browser',
  'src/console/state/load.ts': 'in a browser',
}

test('what repeats is a loop of the kernel, whose time is a value', () => {
  const files = [...new Bun.Glob('src/**/*.{ts,tsx}').scanSync({ cwd: root })]
  const own = files.filter((file) => /\bsetInterval\(/.test(withoutComments(readFileSync(join(root, file), 'utf8'))))
  expect(own.sort()).toEqual(Object.keys(ownIntervals).sort())
})

/** Files that parse JSON by themselves, and whose it is: a file or a text of our own, or what a user gave this very command. */
const ownJson: Readonly<Record<string, string>> = {
  'src/protocol/json/foreign-json.ts': 'after the scanner',
  'src/protocol/json/json-body.ts': 'after the scanner',
  'src/protocol/json/exact-numbers.ts': 'after the scanner',
  'src/protocol/json/json-scan.ts': 'one key of a text that was scanned',
  'src/actors/console/statecharts.ts': 'a file of the build',
  'src/actors/operators/oidc.ts': 'a text that the gateway has sealed',
  'src/actors/operators/hand-over.ts': 'a text that the gateway has sealed',
  'src/cli/commands/audit/audit-chain.ts': 'a file that the command wrote',
  'src/cli/frame/credentials.ts': "the user's file",
  'src/cli/commands/inference/job-book.ts': 'a file that the command wrote',
  'src/cli/commands/accounts/policy-options.ts': "the user's own policy",
  'src/db/queries/money/receipts.ts': 'the text of a receipt, which was made or checked here',
  'src/host/data-folder.ts': 'a file of the data folder',
  'src/db/backup/backup-text.ts': 'a backup',
  'src/db/embedded/embedded-binaries.ts': 'files of a package',
  'src/db/migrate.ts': 'the journal of the migrations',
  'src/http/openapi/schema.ts': 'a copy of our own schemas',
  'src/http/routes/billing/receipts.ts': 'a receipt that was made a line before',
  'src/node/commands/command-store.ts': "the agent's folder",
  'src/node/commands/command-work.ts': "the agent's own answer",
  'src/node/receipts/receipt-signer.ts': 'a receipt that was made a line before',
  'src/host/private-files.ts': "the agent's folder",
  'src/host/log-memory.ts': 'the data folder',
}
const ownRooms = /^src\/(?:fake-node|console)\//
const bareParse = /\bJSON\.parse\b|(?<!failure)\.json\(\)/

test('nothing foreign is parsed but behind the scanner (`foreignJson`, `parseJson`)', () => {
  const files = [...new Bun.Glob('src/**/*.{ts,tsx}').scanSync({ cwd: root })].filter((file) => !ownRooms.test(file))
  const parsing = files.filter((file) => bareParse.test(withoutComments(readFileSync(join(root, file), 'utf8'))))
  expect(parsing.sort()).toEqual(Object.keys(ownJson).sort())
})

const exportedValue = /^export (?:async )?(?:abstract )?(?:const|function\*?|class) ([\w$]+)/gm

/** Values that a file exports and no other file of the repository names. Tables are named by `import * as schema`. */
function exportedInVain(): string[] {
  const files = ['src', 'tests', 'bench', 'scripts'].flatMap((folder) => [
    ...new Bun.Glob(`${folder}/**/*.{ts,tsx,mjs}`).scanSync({ cwd: root }),
  ])
  const texts = new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]))
  const naming = new Map<string, number>()
  for (const text of texts.values()) {
    for (const word of new Set(text.match(/[\w$]+/g))) naming.set(word, (naming.get(word) ?? 0) + 1)
  }
  return [...texts].flatMap(([file, text]) =>
    /^src\/(?!db\/schema\/)/.test(file)
      ? [...text.matchAll(exportedValue)].flatMap(([, name = '']) => (naming.get(name) === 1 ? `${file}: ${name}` : []))
      : [],
  )
}

test('a value is exported only where another file names it', () => {
  expect(exportedInVain()).toEqual([])
})
