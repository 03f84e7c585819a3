import { expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { comparedDocuments } from '../scripts/settings-table.ts'
import { createMetrics } from '../src/actors/telemetry/metrics.ts'
import { Fault } from '../src/fake-node/faults.ts'
import { canonicalJson } from '../src/protocol/json/canonical-json.ts'
import { textHash } from '../src/protocol/receipts/receipt.ts'
import { signingKey } from '../src/protocol/signing/ed25519.ts'
import { openRequest, openResponse, sealRequest, sealResponse } from '../src/protocol/signing/envelope-sealing.ts'
import {
  copyMessage,
  enrollMessage,
  keyVerifyMessage,
  receiptMessage,
  routerKeysMessage,
  routerMessage,
  statusMessage,
  transportKeyMessage,
  tunnelMessage,
} from '../src/protocol/signing/signatures.ts'
import { EnrollRequest } from '../src/protocol/wire/nodes/agent.ts'
import { newToken } from '../src/secrets.ts'
import { settings } from '../src/settings/table.ts'

const root = join(import.meta.dir, '..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const documents = [
  ...new Bun.Glob('*.md').scanSync({ cwd: root }),
  ...new Bun.Glob('docs/**/*.md').scanSync({ cwd: root }),
].sort()

/** GitHub's id of a heading. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
    .trim()
    .replaceAll(' ', '-')
const anchors = (file: string) => [...read(file).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => anchorOf(heading))

test('settings, commands and error codes in the documents are those of the code', () => {
  for (const { file, is, should } of comparedDocuments()) {
    expect({ file, current: is === should, remedy: 'node scripts/bun.mjs scripts/settings-table.ts' }).toEqual({
      file,
      current: true,
      remedy: 'node scripts/bun.mjs scripts/settings-table.ts',
    })
  }
})

test.each(documents)('every link of %s leads somewhere', (file) => {
  const links = [...read(file).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target)
  const broken = links
    .filter((target) => !/^[a-z]+:/.test(target))
    .filter((target) => {
      const [path = '', anchor] = target.split('#')
      const to = path === '' ? file : join(dirname(file), path)
      return !existsSync(join(root, to)) || (anchor !== undefined && !anchors(to).includes(anchor))
    })
  expect(broken).toEqual([])
})

/** Cells of a row; `\\|` is a bar inside of one. */
const cellsOf = (row: string) => row.replaceAll('\\|', '').split('|').length

test.each(documents)('every row of a table of %s has as many cells as its head', (file) => {
  const tables = read(file).matchAll(/^\|.+\|\n\|(?: *:?-+:? *\|)+\n(?:\|.*\n)*/gm)
  const uneven = [...tables].flatMap(([table]) => {
    const [head = '', ...rows] = table.trimEnd().split('\n')
    return rows.filter((row) => cellsOf(row) !== cellsOf(head))
  })
  expect(uneven).toEqual([])
})

/** For those who build Penstock or speak its protocol: they cite the specification by its numbers. */
const ofClauses = /^(?:docs\/(?:specification|protocol|architecture|decisions\/.*)\.md|CHANGELOG\.md|CONTRIBUTING\.md)$/

test('docs/architecture.md lists every decision, in the order of their numbers', () => {
  const listed = [...read('docs/architecture.md').matchAll(/^- \[\d+: .*\]\((decisions\/.+)\)$/gm)].map(
    ([, path]) => path,
  )
  const written = documents.filter((file) => file.startsWith('docs/decisions/'))
  expect(listed).toEqual(written.map((file) => file.slice('docs/'.length)))
})

test('no page for users cites the specification by a number', () => {
  const citing = documents.filter((file) => !ofClauses.test(file) && read(file).includes('§'))
  expect(citing).toEqual([])
  expect(documents.filter((file) => ofClauses.test(file) && read(file).includes('§')).length).toBeGreaterThan(0)
})

test('§35: README and guides lead clients to /v1, where every client looks, and none to another name of it', () => {
  const guides = documents.filter((file) => file === 'README.md' || /^docs\/(integrations|recipes)\//.test(file))
  expect(guides.length).toBeGreaterThan(10)
  expect(guides.filter((file) => read(file).includes('/v1/api'))).toEqual([])
  expect(guides.filter((file) => file.startsWith('docs/integrations/') && !/\/v1\b/.test(read(file)))).toEqual([
    // It speaks Ollama's interface.
    'docs/integrations/home-assistant.md',
  ])
})

test('every address that a reader may copy has the one base URL', () => {
  const ofOther = documents.flatMap((file) =>
    [...read(file).matchAll(/(?::\d+|\.example|\$\w+)\/v1\/api\b(?!\/private-inference).*/g)].map(([found]) => [
      file,
      found,
    ]),
  )
  expect(ofOther.filter(([file = '']) => !ofClauses.test(file))).toEqual([])
  expect(documents.filter((file) => /:7070\/v1['"/ ]/.test(read(file))).length).toBeGreaterThan(10)
})

test('the measurements are one page: a table, a drawing, a command', () => {
  const page = read('bench/RESULTS.md')
  expect(page.split('\n').length).toBeLessThanOrEqual(80)
  const [, drawing = ''] = /!\[[^\]]+\]\(([^)]+\.svg)\)/.exec(page) ?? []
  expect([drawing, existsSync(join(root, 'bench', drawing))]).toEqual([drawing, drawing !== ''])
  expect(page.match(/^\| *:?-/gm)).toHaveLength(1)
  expect(page).toContain('npm run bench')
})

test('the glossary is short, and each of its terms is a word of the code', () => {
  const section = /^## Glossary\n[\s\S]+?(?=^## )/m.exec(read('docs/architecture.md'))?.[0] ?? ''
  const terms = [...section.matchAll(/^\| ([a-z][^|]*) \| /gm)].flatMap(([, term = '']) => term.split(', '))
  expect(terms.length).toBeGreaterThan(30)
  expect(section.trimEnd().split('\n').length).toBeLessThanOrEqual(40)
  const source = [...new Bun.Glob('src/**/*.{ts,tsx}').scanSync({ cwd: root })].map(read).join('\n').toLowerCase()
  const words = (term: string) => new RegExp(`\\b${term.replaceAll(/[ -]/g, '[ _-]?')}`)
  expect(terms.filter((term) => !words(term).test(source))).toEqual([])
})

test('a machine is a statechart: no sentence of the program calls a computer so', () => {
  const files = [...new Bun.Glob('src/**/*.{ts,tsx}').scanSync({ cwd: root })]
  const sentences = files.flatMap((file) => {
    const code = read(file).replaceAll(/\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*$/gm, '')
    return [...code.matchAll(/(['"`])[^'"`\n]*\w machines?\b[^'"`\n]*/g)].map(([text]) => `${file}: ${text}`)
  })
  expect(sentences).toEqual([])
  expect(documents.filter((file) => file.startsWith('docs/reference/') && /\bmachine/i.test(read(file)))).toEqual([])
})

test.each(documents)('every setting that %s names exists', (file) => {
  const known = [
    ...Object.keys(settings),
    'SVC_BASE_URL',
    'SVC_ADMIN_TOKEN',
    'SVC_GATEWAY_KEY',
    'SVC_APPROVER_TOKEN',
    'SVC_CUSTOMER_ID',
    'SVC_CUSTOMER_TOKEN',
    'SVC_UPDATE_URL',
    'SVC_UPDATE_KEY',
  ]
  const named = [...read(file).matchAll(/\bSVC_[A-Z_]*[A-Z]\b/g)].map(([name]) => name)
  expect(named.filter((name) => !known.includes(name))).toEqual([])
})

test.each(documents)('every source file that %s names exists', (file) => {
  const named = [...read(file).matchAll(/`((?:src|tests|scripts)\/[\w./-]+)`/g)].map(([, path = '']) => path)
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([])
})

test('§24: the package is private and scoped, and nothing tells anybody to run another one by the name of this program', () => {
  const { private: isPrivate, name } = JSON.parse(read('package.json')) as { private: boolean; name: string }
  expect([isPrivate, name]).toEqual([true, '@penstock/penstock'])
  const texts = [...documents, ...new Bun.Glob('{src,ops,scripts}/**/*').scanSync({ cwd: root })]
  const told = texts.filter((file) => /\b(?:npx|bunx|npm (?:i|install|exec)(?: -\w+)*) penstock\b/.test(read(file)))
  // The one sentence that says so.
  expect(told).toEqual(['docs/specification.md'])
})

test('every metric is in docs/operations/observe.md', async () => {
  const text = await createMetrics().text()
  const names = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name = '']) => name)
  expect(names.length).toBeGreaterThan(10)
  const operations = read('docs/operations/observe.md')
  expect(names.filter((name) => !operations.includes(`\`${name}\``))).toEqual([])
})

test('§20: the envelope of docs/protocol.md opens, and is what its keys give', () => {
  const text = /<!-- envelope:begin -->\n```json\n([\s\S]+?)\n```/.exec(read('docs/protocol.md'))?.[1] ?? ''
  const vector = JSON.parse(text)
  const bytes = (base64url: string) => new Uint8Array(Buffer.from(base64url, 'base64url'))
  const utf8 = (plain: string) => new TextEncoder().encode(plain)
  const { job_id: jobId, model_id: modelId, node_id: nodeId } = vector.context
  const context = { jobId, modelId, nodeId }
  const fixed = { secretKey: bytes(vector.client_secret), nonce: bytes(vector.request.nonce) }
  const { envelope, responseKeys } = sealRequest(bytes(vector.node_public), context, utf8(vector.request_text), fixed)
  expect(envelope).toEqual(vector.request)
  const opened = openRequest(bytes(vector.node_secret), context, vector.request)
  const answer = { nonce: bytes(vector.response.nonce) }
  expect(sealResponse(opened.responseKeys, context, utf8(vector.response_text), answer)).toEqual(vector.response)
  expect(new TextDecoder().decode(openResponse(responseKeys, context, vector.response))).toBe(vector.response_text)
})

test('every fault of the fake node is in docs/operations/nodes.md', () => {
  const kinds = Fault.anyOf.map((fault) => String(fault.properties.kind.const))
  const operations = read('docs/operations/nodes.md')
  expect(kinds.length).toBeGreaterThan(15)
  expect(kinds.filter((kind) => !operations.includes(`\`${kind}\``))).toEqual([])
})

test('§22: what docs/protocol.md says of nodes can be followed: its vectors bear their signatures', () => {
  const protocol = read('docs/protocol.md')
  const block = (name: string) => new RegExp(`<!-- ${name}:begin -->\n\`\`\`json\n(.+)\n`).exec(protocol)?.[1] ?? ''
  const identity = signingKey(Uint8Array.from({ length: 32 }, (_, at) => 0x11 + at))
  const request = JSON.parse(block('enroll')) as Static<typeof EnrollRequest>
  expect(Value.Check(EnrollRequest, request)).toBe(true)
  expect(canonicalJson(request)).toBe(block('enroll'))
  expect(protocol).toContain(`\`${enrollMessage(request)}\``)
  expect(request.public_key_ed25519).toBe(identity.publicKey)
  expect(request.signature_ed25519).toBe(identity.sign(enrollMessage(request)))
  for (const key of request.transport_keys) expect(key.signature_ed25519).toBe(identity.sign(transportKeyMessage(key)))
  const asked = keyVerifyMessage('node_0001', 1_795_190_400, 'A'.repeat(22), block('keys-verify'))
  expect(protocol).toContain(`is signed \`${identity.sign(asked)}\``)
})

test('§22: every signed text of docs/protocol.md bears the signature beside it', () => {
  const table = /<!-- signed:begin -->\n([\s\S]+?)<!-- signed:end -->/.exec(read('docs/protocol.md'))?.[1] ?? ''
  const identity = signingKey(Uint8Array.from({ length: 32 }, (_, at) => 0x11 + at))
  const rows = [...table.matchAll(/^\| .+? \| `(.+?)` \| `(.+?)` \|$/gm)].map(([, text = '', signature]) => [
    text,
    signature,
  ])
  const [stamp, nonce] = [1795190400, 'A'.repeat(22)]
  expect(rows.map(([text]) => text ?? '')).toEqual([
    routerMessage(
      { nodeId: 'node_0001', method: 'POST', path: '/v1/chat/completions', body: '{}' },
      { timestamp: stamp, nonce },
    ),
    tunnelMessage('node_0001', stamp, nonce, identity.keyId),
    enrollMessage({}),
    statusMessage('node_0001', nonce, {}),
    keyVerifyMessage('node_0001', stamp, nonce, '{}'),
    copyMessage('node_0001', stamp, nonce, '/v1/node-agent/copies/files', 'ticket'),
    routerKeysMessage([{ kid: identity.keyId, public_key_ed25519: identity.publicKey }]),
  ])
  for (const [text, signature] of rows) expect(identity.sign(text ?? '')).toBe(signature ?? '')
})

test('§20: the vectors of docs/protocol.md hold', () => {
  const protocol = read('docs/protocol.md')
  const receipt = /<!-- vector:begin -->\n```json\n(.+)\n```/.exec(protocol)?.[1] ?? ''
  expect(canonicalJson(JSON.parse(receipt))).toBe(receipt)
  expect(protocol).toContain(`\`${textHash(receipt)}\``)
  const identity = signingKey(Uint8Array.from({ length: 32 }, (_, at) => 0x11 + at))
  expect(protocol).toContain(`\`${identity.sign(receiptMessage(textHash(receipt)))}\``)
  expect(protocol).toContain(
    newToken(
      'gateway',
      Uint8Array.from({ length: 32 }, (_, at) => 0x21 + at),
    ),
  )
})
