import { afterEach, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { x25519 } from '@noble/curves/ed25519.js'
import { Problem } from '../../../src/errors.ts'
import { newId } from '../../../src/ids.ts'
import { answerCommand } from '../../../src/node/commands/command-routes.ts'
import { openCommandStore } from '../../../src/node/commands/command-store.ts'
import { Commands } from '../../../src/node/commands/commands.ts'
import type { Work, Worker, WorkOutcome } from '../../../src/node/commands/sealed-work.ts'
import { createReceiptSigner } from '../../../src/node/receipts/receipt-signer.ts'
import { signingKey, verifyKey } from '../../../src/protocol/signing/ed25519.ts'
import { transportKeyId } from '../../../src/protocol/signing/envelope.ts'
import { openResponse, type SealedRequest, sealRequest } from '../../../src/protocol/signing/envelope-sealing.ts'
import { receiptMessage } from '../../../src/protocol/signing/signatures.ts'
import type { CommandState, CommandSubmit } from '../../../src/protocol/wire/admin/command.ts'

const seed = (byte: number) => new Uint8Array(32).fill(byte)
const identity = signingKey(seed(1))
const nodeSecret = seed(2)
const nodePublic = x25519.getPublicKey(nodeSecret)
const context = { jobId: 'job_1', modelId: 'm', nodeId: 'node_1' }
const marker = 'what nobody else may read'
const answered = (answer: object = { choices: [{ message: { content: marker } }] }): WorkOutcome => ({
  kind: 'answered',
  answer,
  runtimeKind: 'openai',
  promptTokens: 5,
  completionTokens: 2,
})

const folders: string[] = []
const open: Commands[] = []
afterEach(async () => {
  for (const commands of open.splice(0)) await commands.stop()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})
const newFolder = () => {
  const folder = mkdtempSync(join(tmpdir(), 'penstock-commands-'))
  folders.push(folder)
  return folder
}

/** An agent's commands on a folder; `run`: its runtime. */
function agent(run: (work: Work) => Promise<WorkOutcome>, folder = newFolder()) {
  const seen: Work[] = []
  const worker: Worker = {
    nodeId: 'node_1',
    nodeClass: () => 'home',
    sign: createReceiptSigner(identity, { add: () => {} }),
    secretKey: (keyId) => (keyId === transportKeyId(nodePublic) ? nodeSecret : null),
    run: (work) => {
      seen.push(work)
      return run(work)
    },
  }
  const failures: unknown[] = []
  const commands = new Commands({
    store: openCommandStore(join(folder, 'commands')),
    worker,
    failed: (_, error) => failures.push(error),
  })
  open.push(commands)
  const ask = async (method: string, commandId: string, body?: object, query = ''): Promise<[number, unknown]> => {
    const request = new Request(`http://localhost/svc/v1/commands/${commandId}${query}`, { method })
    try {
      const response = await answerCommand(commands, request, body)
      return [response.status, response.status === 204 ? null : await response.json()]
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      return [error.status, { code: error.code }]
    }
  }
  const ended = async (commandId: string) => (await ask('GET', commandId, undefined, '?wait_s=10'))[1] as CommandState
  return { folder, seen, failures, commands, ask, ended }
}

const chat = { messages: [{ role: 'user', content: marker }] }
const sealed = (plaintext: unknown = chat): SealedRequest =>
  sealRequest(nodePublic, context, new TextEncoder().encode(JSON.stringify(plaintext)))

const submitOf = ({ envelope }: SealedRequest, more: Partial<CommandSubmit> = {}): CommandSubmit => ({
  attempt: 1,
  request_id: newId('req'),
  job_id: 'job_1',
  sealed_job_id: 'job_1',
  node_id: 'node_1',
  model_id: 'm',
  upstream_model_id: 'm:latest',
  runtime_id: 'rt_1',
  deadline_at: new Date(Date.now() + 3_600_000).toISOString(),
  encrypted_request: envelope,
  ...more,
})

test('§22: opened, run under the runtime’s name of the model, sealed, and vouched for', async () => {
  const { ask, ended, seen } = agent(async () => answered())
  const request = sealed()
  const commandId = newId('cmd')
  const submit = submitOf(request)
  expect(await ask('PUT', commandId, submit)).toEqual([202, { command_id: commandId, status: 'accepted' }])
  const state = await ended(commandId)
  if (state.status !== 'completed') throw new Error(state.status)
  expect(seen[0]?.chat).toEqual({ ...chat, model: 'm:latest' })
  const answer = openResponse(request.responseKeys, context, state.encrypted_response)
  expect(JSON.parse(new TextDecoder().decode(answer))).toEqual({ choices: [{ message: { content: marker } }] })
  expect(answer.length % 256).toBe(0)
  const { receipt, receipt_hash, signature_ed25519 } = state.receipt
  expect(receipt).toMatchObject({
    kind: 'private_job',
    request_id: submit.request_id,
    job_id: 'job_1',
    node_id: 'node_1',
    node_class: 'home',
    runtime_id: 'rt_1',
    model_id: 'm',
    prompt_tokens: 5,
    completion_tokens: 2,
  })
  expect(verifyKey(identity.publicKey)?.verify(receiptMessage(receipt_hash), signature_ed25519)).toBe(true)
})

test('§22: the same id and attempt again run nothing; a higher attempt restarts what failed', async () => {
  let fail = true
  const { ask, ended, seen } = agent(async () => (fail ? { kind: 'failed', code: 'runtime_error' } : answered()))
  const commandId = newId('cmd')
  const request = sealed()
  await ask('PUT', commandId, submitOf(request))
  expect(await ended(commandId)).toMatchObject({ status: 'failed', attempt: 1, error: { code: 'runtime_error' } })
  expect((await ask('PUT', commandId, submitOf(request)))[0]).toBe(202)
  expect(seen.length).toBe(1)
  fail = false
  await ask('PUT', commandId, submitOf(request, { attempt: 2 }))
  expect(await ended(commandId)).toMatchObject({ status: 'completed', attempt: 2 })
  expect(seen.length).toBe(2)
})

test('§10: an ephemeral key is one command’s, over a crash too; its answer is still there', async () => {
  const first = agent(async () => answered())
  const commandId = newId('cmd')
  const request = sealed()
  await first.ask('PUT', commandId, submitOf(request))
  const before = await first.ended(commandId)
  const second = agent(async () => answered(), first.folder)
  expect(await second.ended(commandId)).toEqual(before)
  expect(await second.ask('PUT', newId('cmd'), submitOf(request))).toEqual([409, { code: 'envelope_replayed' }])
  expect(await second.ask('PUT', commandId, submitOf(sealed()))).toEqual([409, { code: 'envelope_replayed' }])
  expect((await second.ask('PUT', commandId, submitOf(request)))[0]).toBe(202)
  expect(second.seen.length).toBe(0)
})

test('§10: what ran when the agent crashed asks for another attempt, and that may be made', async () => {
  const first = agent(() => new Promise(() => {}))
  const commandId = newId('cmd')
  const request = sealed()
  await first.ask('PUT', commandId, submitOf(request))
  // No stop: the process is simply gone.
  const second = agent(async () => answered(), first.folder)
  expect(await second.ended(commandId)).toMatchObject({ status: 'failed', error: { code: 'runtime_error' } })
  await second.ask('PUT', commandId, submitOf(request, { attempt: 2 }))
  expect((await second.ended(commandId)).status).toBe('completed')
  open.splice(0, 1)
})

test.each([
  ['no JSON', 'x', 'invalid_payload'],
  ['a list', [], 'invalid_payload'],
  ['no messages', {}, 'invalid_payload'],
  ['a model of its own', { ...chat, model: 'other' }, 'invalid_payload'],
  ['a stream', { ...chat, stream: true }, 'invalid_payload'],
  ['several answers', { ...chat, n: 2 }, 'invalid_payload'],
  ['a mixture', { ...chat, svc: { mixture: {} } }, 'mixture_unsupported_path'],
] as const)('§22: a sealed payload with %s is refused', async (_, payload, code) => {
  const { ask, ended, seen } = agent(async () => answered())
  const commandId = newId('cmd')
  await ask('PUT', commandId, submitOf(sealed(payload)))
  expect(await ended(commandId)).toMatchObject({ status: 'failed', error: { code } })
  expect(seen.length).toBe(0)
})

test('§10: whatever does not open is decrypt_failed', async () => {
  const { ask, ended } = agent(async () => answered())
  const { envelope } = sealed()
  const { aad_hash: _, ...bare } = sealed().envelope
  const wrong = [
    submitOf({ ...sealed(), envelope: { ...sealed().envelope, ciphertext: envelope.ciphertext } }),
    submitOf({ ...sealed(), envelope: bare }, { sealed_job_id: 'other' }),
    submitOf({ ...sealed(), envelope: { ...sealed().envelope, key_id: 'AAAAAAAAAAAAAAAAAAAAAA' } }),
  ]
  for (const submit of wrong) {
    const commandId = newId('cmd')
    await ask('PUT', commandId, submit)
    expect(await ended(commandId)).toMatchObject({ status: 'failed', error: { code: 'decrypt_failed' } })
  }
})

test('§22: cancelled work stops at its runtime; nobody else’s does', async () => {
  const { ask, ended, seen } = agent(
    ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  )
  const commandId = newId('cmd')
  await ask('PUT', commandId, submitOf(sealed()))
  expect(await ask('GET', commandId)).toEqual([200, { command_id: commandId, attempt: 1, status: 'running' }])
  const waiting = ended(commandId)
  expect((await ask('DELETE', commandId))[0]).toBe(204)
  expect((await waiting).status).toBe('cancelled')
  expect(seen[0]?.signal.aborted).toBe(true)
  expect(await ask('DELETE', newId('cmd'))).toEqual([404, { code: 'command_not_found' }])
  expect(await ask('GET', newId('cmd'))).toEqual([404, { code: 'command_not_found' }])
})

test('§22: a defect is told by its class, and asks for another attempt', async () => {
  const { ask, ended, failures } = agent(async () => {
    throw new TypeError(marker)
  })
  const commandId = newId('cmd')
  await ask('PUT', commandId, submitOf(sealed()))
  expect(await ended(commandId)).toMatchObject({ status: 'failed', error: { code: 'runtime_error' } })
  expect(failures.length).toBe(1)
})

test('§22: files are 0600 in a folder of 0700, and hold nothing in the clear', async () => {
  const { ask, ended, folder } = agent(async () => answered())
  const commandId = newId('cmd')
  await ask('PUT', commandId, submitOf(sealed()))
  await ended(commandId)
  const place = join(folder, 'commands')
  expect(statSync(place).mode & 0o777).toBe(0o700)
  const files = readdirSync(place)
  expect(files).toEqual([`${commandId}.json`])
  const text = readFileSync(join(place, files[0] ?? ''), 'utf8')
  expect(statSync(join(place, files[0] ?? '')).mode & 0o777).toBe(0o600)
  expect(text).toContain('completed')
  expect(text).not.toContain(marker)
})
