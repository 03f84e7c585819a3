import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startFakeNode } from '../src/fake-node/fake-node.ts'
import type { EnrollmentTokenIssued } from '../src/protocol/wire/nodes/enrollment.ts'
import { waitFor } from './support/gateways/gateway.ts'
import { startAgent } from './support/nodes/agents.ts'
import { startRecipeNode } from './support/nodes/recipe-node.ts'
import { fixture } from './support/run/fixture.ts'
import { installedByNpm } from './support/run/npm-test.ts'
import { adminCall, nodeReady, startEmbeddedGateway } from './support/run/offline.ts'
import { openFolder } from './support/run/open-folder.ts'

/**
 * Every block of README and docs that is tagged `runnable` runs as it stands, in a folder like the reader's, against a
 * gateway of its own; only the ports are other ones. It must end well, and say what the block `text output` behind it
 * says (`…`: anything).
 */
const root = join(import.meta.dir, '..')
const documents = ['README.md', ...new Bun.Glob('docs/**/*.md').scanSync({ cwd: root })].sort()
const languages = ['sh', 'js', 'python'] as const
type Language = (typeof languages)[number]

interface Block {
  /** `docs/integrators.md:27` */
  readonly place: string
  readonly language: Language
  readonly code: string
  readonly output: string
}

/** The interpreter named by PENSTOCK_PYTHON, or the first on the PATH, where it has the packages of the examples. */
const python = (() => {
  const found = process.env.PENSTOCK_PYTHON || Bun.which('python3')
  if (found === null) return null
  return Bun.spawnSync([found, '-c', 'import openai, langchain_openai']).exitCode === 0 ? found : null
})()

function blocksOf(file: string): readonly Block[] {
  const text = readFileSync(join(root, file), 'utf8')
  return [...text.matchAll(/^```(\w+) runnable\n([\s\S]*?)^```\n(?:\n```text output\n([\s\S]*?)^```\n)?/gm)].map(
    (found) => {
      const [, language = '', code = '', output = ''] = found
      const line = text.slice(0, found.index).split('\n').length
      if (!languages.includes(language as Language)) throw new Error(`${file}:${line}: nothing runs ${language}`)
      return { place: `${file}:${line}`, language: language as Language, code, output }
    },
  )
}

/** Python without packages runs it, which most computers have. */
const standsAlone = ({ code }: Block) => Bun.which('python3') !== null && !/^from \w*openai /m.test(code)

const blocks = documents.flatMap(blocksOf)
const models = ['llama-3.1-8b', 'qwen3-8b', 'gemma-3-12b']

let dir = ''
/** Where packages are found. */
const inside = join(root, '.run', `docs-${process.pid}`)

let token = ''

dir = openFolder('penstock-docs-')
mkdirSync(inside, { recursive: true })
symlinkSync(join(root, 'penstock'), join(dir, 'penstock'))
const gateway = await fixture(startEmbeddedGateway(join(dir, '.data'), { SVC_DEMO: 'always' }))
const { admin_token: admin, customer_id } = gateway.credentials
const node = await fixture(startFakeNode({ models, answer: { text: 'Answer: 391' } }))
const own = { customer_id, visibility: 'private', privacy_class: 'private', node_class: 'gpu' }
const recipes = await fixture(startRecipeNode())
const made: string[] = []
for (const { url } of [node, recipes]) {
  const { node_id } = await adminCall<{ node_id: string }>(gateway.url, admin, 'POST', '/v1/admin/nodes', {
    ...own,
    url,
  })
  made.push(node_id)
}
const issued = await adminCall<EnrollmentTokenIssued>(gateway.url, admin, 'POST', '/v1/admin/enrollment-tokens', {
  ...own,
  name: 'docs',
  endpoint_url_allowed: false,
})
const dataDir = join(dir, '.local/share/penstock/node')
// It can be asked for private jobs, too: on its own computer is the model server that the gateway asks for chats.
const agent = await fixture(
  startAgent({ gatewayUrl: gateway.url, token: issued.enrollment_token, runtimes: [node.url], dataDir }),
)
afterAll(() => {
  rmSync(dir, { recursive: true, force: true })
  rmSync(inside, { recursive: true, force: true })
})
token = (JSON.parse(readFileSync(join(dataDir, 'local-token.json'), 'utf8')) as { local_token: string }).local_token
for (const nodeId of [...made, agent.nodeId]) await waitFor('the node', () => nodeReady(gateway.url, admin, nodeId))

function command(block: Block, code: string): readonly string[] {
  if (block.language === 'sh') return ['bash', '-euo', 'pipefail', '-c', code]
  if (block.language === 'python') return [python ?? 'python3', '-c', code]
  const file = join(inside, `${block.place.replaceAll(/\W/g, '-')}.mjs`)
  writeFileSync(file, code)
  return [process.execPath, file]
}

async function run(block: Block): Promise<string> {
  const code = block.code
    .replaceAll('http://127.0.0.1:7070', gateway.url)
    .replaceAll('http://127.0.0.1:7071', agent.node.url)
  const child = Bun.spawn([...command(block, code)], {
    cwd: dir,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH ?? '',
      HOME: dir,
      KEY: gateway.credentials.gateway_key,
      TOKEN: token,
      NODE_ID: agent.nodeId,
      FINGERPRINT: agent.node.fingerprint,
      CUSTOMER_ID: gateway.credentials.customer_id,
      CUSTOMER_TOKEN: gateway.credentials.customer_token,
      SVC_BASE_URL: gateway.url,
      NO_PROXY: '127.0.0.1',
      LC_ALL: 'C.UTF-8',
    },
  })
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  expect({ place: block.place, code: await child.exited, err }).toMatchObject({ place: block.place, code: 0 })
  return out
}

/** The pieces between `…` come in this order; a line break in the example is one in the output. */
function says(output: string, example: string): boolean {
  let from = 0
  for (const piece of example.trim().split('…')) {
    const at = output.indexOf(piece, from)
    if (at === -1) return false
    from = at + piece.length
  }
  return true
}

test('the documents have examples to run, in each language', () => {
  expect(new Set(blocks.map(({ language }) => language))).toEqual(new Set(languages))
  expect(blocks.length).toBeGreaterThan(10)
})

test('every recipe has examples in all languages', () => {
  const recipesOfDocs = documents.filter((file) => file.startsWith('docs/recipes/'))
  expect(recipesOfDocs.length).toBeGreaterThan(10)
  for (const file of recipesOfDocs) {
    const found = blocks.filter(({ place }) => place.startsWith(`${file}:`)).map(({ language }) => language)
    expect([file, new Set(found)]).toEqual([file, new Set(languages)])
  }
})

for (const block of blocks) {
  const absent = block.language === 'python' && python === null && !standsAlone(block)
  const name = `${block.place} (${block.language}) runs${absent ? ' (skipped: no python3 with openai and langchain-openai)' : ''}`
  test.skipIf(absent || (block.language === 'sh' && !installedByNpm))(name, async () => {
    const output = await run(block)
    expect(output.trim()).not.toBe('')
    expect({ output, says: says(output, block.output) }).toEqual({ output, says: true })
  })
}
