import { afterEach, beforeEach, expect, test } from 'bun:test'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { openPrivateFolder } from '../../../src/host/private-files.ts'
import { createLog } from '../../../src/log.ts'
import { DiskRoom } from '../../../src/node/hardware/disk.ts'
import { modelFolder } from '../../../src/node/pulls/pull-places.ts'
import { pullSource } from '../../../src/node/pulls/pull-sources.ts'
import { type PullOptions, Pulls } from '../../../src/node/pulls/pulls.ts'
import { atOnce } from '../../../src/node/pulls/turns.ts'
import { readModels } from '../../../src/node/servers/models-reading.ts'
import { hasEnded, type Pull } from '../../../src/protocol/wire/nodes/pulls.ts'
import { ggufFile } from '../../support/nodes/gguf-file.ts'
import { type HubFault, type ModelHub, sha256, startModelHub } from '../../support/nodes/model-hub.ts'
import { waitFor } from '../../support/run/wait-until.ts'

const small = ggufFile(300_000)
const files = {
  'tiny-Q4_K_M.gguf': small,
  'tiny-Q8_0.gguf': ggufFile(400_000),
  'mmproj-tiny-Q4_K_M.gguf': ggufFile(5_000),
  'big-Q2_K-00001-of-00002.gguf': ggufFile(200_000),
  'big-Q2_K-00002-of-00002.gguf': ggufFile(100_000),
}
let hub: ModelHub
let dataDir = ''
let pulls: Pulls
const lines: string[] = []
beforeEach(() => {
  hub = startModelHub(files)
  dataDir = mkdtempSync(join(tmpdir(), 'penstock-pulls-'))
  lines.length = 0
  budget(20_000)
})
afterEach(async () => {
  await pulls?.stop()
  hub.stop()
  rmSync(dataDir, { recursive: true, force: true })
})

const budget = (mb: number) =>
  writeFileSync(join(dataDir, 'models.json'), JSON.stringify({ memory_mb: mb, models: [] }))
const entries = () => readModels('models.json', readFileSync(join(dataDir, 'models.json'), 'utf8')).models
const root = () => join(dataDir, 'models')
const stored = () =>
  existsSync(root()) ? readdirSync(root(), { recursive: true, withFileTypes: true }).filter((one) => one.isFile()) : []
const names = () => stored().map(({ name }) => name)
const disk = (freeBytes: number) => new DiskRoom(async () => ({ bavail: freeBytes, bsize: 1 }))

function begin(more: Partial<PullOptions> = {}): Pulls {
  const sources = [`hf=${hub.url}`, `ollama=${hub.url}`, hub.url].flatMap((text) => pullSource(text) ?? [])
  pulls = new Pulls({
    options: {
      ...{ sources, root: root(), disk: disk(1e12) },
      times: { backoff: { firstMs: 1, maxMs: 5 }, failuresMax: 3 },
      ...more,
    },
    folder: openPrivateFolder(dataDir),
    log: createLog('info', (text) => lines.push(text)),
    gateway: () => null,
    turn: atOnce,
  })
  return pulls
}

const seen = (id: string): Pull => {
  const found = pulls.list().find(({ pull_id }) => pull_id === id)
  if (found === undefined) throw new Error('forgotten')
  return found
}
const ended = (id: string) => waitFor('the end', () => (hasEnded(seen(id).state) ? seen(id) : null))
async function pulled(ref: string, more: object = {}, fault: HubFault = {}): Promise<Pull> {
  hub.fault = fault
  return ended(pulls.order({ ref, ...more }).pull_id)
}

test.each([
  ['hf:org/repo:Q4_K_M', 'repo:q4_k_m', 'tiny-Q4_K_M.gguf', small],
  ['hf:org/repo/tiny-Q8_0.gguf', 'repo', 'tiny-Q8_0.gguf', files['tiny-Q8_0.gguf']],
  ['ollama:tiny', 'tiny', 'tiny-latest.gguf', small],
] as const)('§39: %s is fetched, checked, and an entry of models.json', async (ref, model, name, bytes) => {
  begin()
  const pull = await pulled(ref)
  expect(pull).toMatchObject({
    state: 'done',
    failure: null,
    model,
    bytes_done: bytes.length,
    bytes_total: bytes.length,
  })
  const [entry] = entries()
  expect(entry).toMatchObject({ id: model, memory_mb: pull.memory_mb ?? 0 })
  const file = entry?.command[2] ?? ''
  expect(basename(file)).toBe(name)
  expect(sha256(readFileSync(file))).toBe(sha256(bytes))
  expect(entry?.command).toEqual([
    ...['llama-server', '-m', file, '--alias', '{model}', '--port', '{port}'],
    ...['-c', '8192', '--metrics'],
  ])
  expect(names()).toEqual([name])
  // Neither places nor names of models stand in the log.
  expect(lines.join()).not.toMatch(/127\.0\.0\.1|tiny|repo/)
})

test('§39: a model of several files, a file by its address, a name and a command of the owner', async () => {
  begin({ command: ['serve', '{file}', '--ctx={context}', '{model}'] })
  expect((await pulled('hf:org/repo:Q2_K', { model: 'big', context_length: 1_024 })).state).toBe('done')
  expect(names().sort()).toEqual(['big-Q2_K-00001-of-00002.gguf', 'big-Q2_K-00002-of-00002.gguf'])
  expect(entries()[0]?.command.map((word) => basename(word))).toEqual([
    ...['serve', 'big-Q2_K-00001-of-00002.gguf', '--ctx=1024', '{model}'],
  ])
  const ref = `${hub.url}/files/tiny-Q8_0.gguf`
  expect(await pulled(ref)).toMatchObject({ failure: 'not_found' })
  expect(await pulled(ref, { sha256: sha256(files['tiny-Q8_0.gguf']) })).toMatchObject({
    state: 'done',
    model: 'tiny-q8_0',
  })
  expect(await pulled('hf:org/repo:Q8_0', { sha256: '0'.repeat(64) })).toMatchObject({ failure: 'wrong_hash' })
})

test('§39: cut connections go on where they stopped, a hub without ranges begins anew, a silent one is asked again', async () => {
  begin({ silenceMs: 2_000 })
  expect((await pulled('hf:org/repo:Q4_K_M', {}, { cutAfter: 100_000 })).state).toBe('done')
  expect(hub.ranges.slice(1)).toEqual(['', 'bytes=100000-', 'bytes=200000-'])
  expect((await pulled('hf:org/repo:Q8_0', {}, { stallAfter: 50_000 })).state).toBe('done')
  const silent = await pulled('ollama:tiny', {}, { stallAfter: 9_000, knowsNoRanges: true })
  expect(silent).toMatchObject({ state: 'failed', failure: 'hub_unavailable' })
  const done = await pulled('ollama:tiny', {}, { knowsNoRanges: true })
  expect(done).toMatchObject({ state: 'done', bytes_done: small.length })
  const file = entries().find(({ id }) => id === 'tiny')?.command[2] ?? ''
  writeFileSync(`${file}.part`, small.subarray(0, 1_000))
  rmSync(file)
  budget(20_000)
  expect((await pulled('ollama:tiny', {}, { knowsNoRanges: true })).state).toBe('done')
  expect(sha256(readFileSync(file))).toBe(sha256(small))
})

test('§39: a hub that is slow, and never silent for long, is waited for on one connection', async () => {
  begin({ silenceMs: 2_000 })
  // Longer altogether than it may be silent.
  const slow = await pulled('hf:org/repo:Q4_K_M', {}, { drips: { pieces: 10, pauseMs: 250 } })
  expect([slow.state, slow.failure]).toEqual(['done', null])
  expect(hub.ranges.slice(1)).toEqual([''])
})

test('§39: a hub that gives no byte is given up, and the next pull goes on with what there is', async () => {
  begin()
  expect(await pulled('hf:org/repo:Q4_K_M', {}, { cutAfter: 0 })).toMatchObject({
    state: 'failed',
    failure: 'hub_unavailable',
  })
  hub.fault = { stallAfter: 120_000 }
  const { pull_id: id } = pulls.order({ ref: 'hf:org/repo:Q4_K_M' })
  await hub.stalled()
  await waitFor('its bytes', () => seen(id).bytes_done === 120_000)
  expect(pulls.cancel(id).state).toBe('cancelled')
  expect(pulls.cancel(id).state).toBe('cancelled')
  expect(entries()).toEqual([])
  const before = hub.ranges.length
  expect((await pulled('hf:org/repo:Q4_K_M')).state).toBe('done')
  expect(hub.ranges.slice(before + 1)).toEqual(['bytes=120000-'])
})

test('§39: a file with another hash is deleted, also where an earlier try has left a part of another file', async () => {
  begin()
  expect(await pulled('hf:org/repo:Q4_K_M', {}, { spoils: true })).toMatchObject({ failure: 'wrong_hash' })
  expect([names(), entries()]).toEqual([[], []])
  const [folder = ''] = readdirSync(root())
  writeFileSync(join(root(), folder, 'tiny-Q4_K_M.gguf.part'), Buffer.alloc(1_000))
  expect(await pulled('hf:org/repo:Q4_K_M')).toMatchObject({ failure: 'wrong_hash' })
  expect((await pulled('hf:org/repo:Q4_K_M')).state).toBe('done')
})

test('§39: what is too large for the memory, the budget of the disk or the disk itself is refused before it is fetched', async () => {
  budget(40)
  begin()
  expect(await pulled('hf:org/repo:Q4_K_M')).toMatchObject({ failure: 'does_not_fit' })
  budget(20_000)
  begin({ budgetBytes: 299_999 })
  expect(await pulled('hf:org/repo:Q4_K_M')).toMatchObject({ failure: 'over_budget' })
  begin({ disk: disk(2e9 + 299_000) })
  expect(await pulled('hf:org/repo:Q4_K_M')).toMatchObject({ failure: 'disk_full' })
  expect(names()).toEqual([])
  // Only of its header.
  expect(hub.ranges.every((range) => range === 'bytes=0-1048575')).toBe(true)
  begin({ budgetBytes: 700_000 })
  expect((await pulled('hf:org/repo:Q4_K_M')).state).toBe('done')
  expect((await pulled('hf:org/repo:Q8_0')).state).toBe('done')
  expect(await pulled('ollama:tiny')).toMatchObject({ failure: 'over_budget' })
})

test('§39: no name of a hub leads out of the folder, and no hub leads the agent to others', async () => {
  hub.stop()
  hub = startModelHub({ '..\\evil-Q4_K_M.gguf': small, 'a/.hidden-Q8_0.gguf': small })
  begin()
  expect(await pulled('hf:org/repo:Q4_K_M')).toMatchObject({ failure: 'hub_malformed' })
  expect(await pulled('hf:org/repo:Q8_0')).toMatchObject({ failure: 'hub_malformed' })
  const other = startModelHub(files)
  for (const sendsTo of [`${other.url}/files/tiny-Q4_K_M.gguf`, 'http://huggingface.co/x', 'file:///etc/passwd']) {
    expect(await pulled('ollama:tiny', {}, { sendsTo })).toMatchObject({ failure: 'not_allowed' })
  }
  expect(other.tokens).toEqual([])
  other.stop()
  expect(() => pulls.order({ ref: 'ollama:tiny', model: '../../up' })).toThrow('names no model')
  const inside = await pulled('ollama:tiny', { model: 'up/../../over' })
  expect(inside.state).toBe('done')
  expect(stored().every(({ parentPath }) => parentPath.startsWith(`${root()}/`))).toBe(true)
})

test('§39: what is missing, hidden, unclear or no model is told apart', async () => {
  begin()
  for (const [ref, fault, failure] of [
    ['hf:org/none:Q4_K_M', {}, 'not_found'],
    ['hf:org/repo:Q5_K_M', {}, 'not_found'],
    ['hf:org/repo', {}, 'ambiguous'],
    ['ollama:tiny', { status: 401 }, 'not_found'],
    ['ollama:tiny', { status: 503 }, 'hub_unavailable'],
  ] as const)
    expect([ref, (await pulled(ref, {}, fault)).failure]).toEqual([ref, failure])
  hub.stop()
  hub = startModelHub({ 'text.gguf': Buffer.from('no model') })
  begin()
  expect(await pulled('ollama:tiny')).toMatchObject({ failure: 'not_a_model' })
})

test('§39: only from places that the owner names; its token goes to the hub itself', async () => {
  const only = [`hf=${hub.url}`].flatMap((text) => pullSource(text) ?? [])
  begin({ sources: only, env: { HF_TOKEN: 'hf_secret' } })
  for (const ref of ['ollama:tiny', `${hub.url}/files/tiny-Q4_K_M.gguf`, 'https://example.com/a.gguf']) {
    expect(() => pulls.order({ ref })).toThrow('lets its agent fetch nothing from there')
  }
  expect((await pulled('hf:org/repo:Q4_K_M')).state).toBe('done')
  expect(new Set(hub.tokens)).toEqual(new Set(['Bearer hf_secret']))
  expect(JSON.stringify(pulls.list()) + lines.join()).not.toContain('hf_secret')
  expect(['ftp://a', 'https://a/path', 'https://u:p@a', 'modelscope', 'hf=nowhere'].map(pullSource)).toEqual(
    Array.from({ length: 5 }, () => null),
  )
})

test('§39: one after the other, each once, no more than may wait, and a name that is taken is refused', async () => {
  begin()
  hub.fault = { stallAfter: 1_000 }
  const first = pulls.order({ ref: 'hf:org/repo:Q4_K_M' })
  await hub.stalled()
  expect(pulls.order({ ref: 'hf:org/repo:Q4_K_M' }).pull_id).toBe(first.pull_id)
  const others = Array.from({ length: 7 }, (_, at) => pulls.order({ ref: 'ollama:tiny', model: `copy-${at}` }))
  expect(others.map(({ state }) => state)).toEqual(others.map(() => 'waiting'))
  expect(() => pulls.order({ ref: 'hf:org/repo:Q8_0' })).toThrow()
  for (const { pull_id } of others) pulls.cancel(pull_id)
  pulls.cancel(first.pull_id)
  await ended(first.pull_id)
  hub.fault = {}
  expect((await pulled('hf:org/repo:Q4_K_M')).state).toBe('done')
  expect(await pulled('ollama:tiny', { model: 'repo:q4_k_m' })).toMatchObject({ failure: 'models_file' })
  rmSync(join(dataDir, 'models.json'))
  expect(await pulled('hf:org/repo:Q8_0')).toMatchObject({ failure: 'models_file' })
})

test('§39: the end of the agent ends a pull, and the folder may be one that cannot be written', async () => {
  begin()
  hub.fault = { stallAfter: 1_000 }
  const { pull_id: id } = pulls.order({ ref: 'hf:org/repo:Q4_K_M' })
  await hub.stalled()
  await pulls.stop()
  expect(seen(id)).toMatchObject({ state: 'failed', failure: 'agent_stopped' })
  rmSync(root(), { recursive: true, force: true })
  mkdirSync(dataDir, { recursive: true })
  writeFileSync(root(), 'a file')
  begin()
  expect(await pulled('hf:org/repo:Q4_K_M')).toMatchObject({ failure: 'disk_error' })
})

test('§39: all pages of a tree are read, at the hub alone, and one without an end is refused', async () => {
  begin()
  const found = await pulled('hf:org/repo:Q8_0', {}, { pageFiles: 2 })
  expect([found.state, hub.pages]).toEqual(['done', [0, 2, 4]])
  // Both parts of a model that stand on two pages.
  expect((await pulled('hf:org/repo:Q2_K', { model: 'big' }, { pageFiles: 1 })).state).toBe('done')
  const before = hub.pages.length
  const endless = await pulled('hf:org/repo:Q4_K_M', { model: 'endless' }, { pageFiles: 1, endless: true })
  expect([endless.failure, hub.pages.length - before]).toEqual(['hub_malformed', 50])
  const away = { pageFiles: 1, next: 'http://127.0.0.1:1/api' }
  expect((await pulled('hf:org/repo:Q4_K_M', { model: 'away' }, away)).failure).toBe('not_allowed')
  const broken = { pageFiles: 1, next: 'http://' }
  expect((await pulled('hf:org/repo:Q4_K_M', { model: 'broken' }, broken)).failure).toBe('hub_malformed')
})

test('§39: a disk that is full in the midst of a file ends the pull and takes no more room; the next one begins anew', async () => {
  begin()
  const ref = 'hf:org/repo:Q4_K_M'
  const folder = modelFolder(root(), 'repo:q4_k_m', ref)
  mkdirSync(folder, { recursive: true })
  const part = join(folder, 'tiny-Q4_K_M.gguf.part')
  symlinkSync('/dev/full', part)
  expect(await pulled(ref)).toMatchObject({ state: 'failed', failure: 'disk_full' })
  expect([readdirSync(folder), entries()]).toEqual([[], []])
  expect((await pulled(ref)).state).toBe('done')
})
