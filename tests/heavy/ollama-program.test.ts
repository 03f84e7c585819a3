import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import { llamaPython, writeTinyModel } from '../support/nodes/llama-server.ts'
import {
  type OllamaServer,
  ollamaProgram,
  type Ran,
  runOllama,
  startOllamaServer,
} from '../support/nodes/ollama-program.ts'
import { ollamaSuite } from '../support/server-suites/ollama.ts'
import { askServer, type Body } from '../support/server-suites/suite-case.ts'

/** Ollama's own program, as people type it, before a gateway; and the same program as the node behind it. */
const found = await ollamaProgram()
const python = await llamaPython()
const program = 'binary' in found && python !== null ? found.binary : null
if ('missing' in found) console.log(`skipped: ${found.missing}`)
if (python === null)
  console.log('skipped: the packages of tests/support/nodes/llama-server.ts cannot be installed from PyPI')

const contextTokens = 2_048

describe.skipIf(program === null)('§28 with Ollama’s own program', () => {
  let folder: string
  let node: OllamaServer
  let gateway: TestGateway
  let keyless: TestGateway
  let customer: TestCustomer
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'penstock-ollama-home-'))
    node = await startOllamaServer(program ?? '', folder)
    const file = await writeTinyModel(python ?? '', contextTokens)
    const model = join(folder, 'Modelfile')
    await Bun.write(model, `FROM ${file}\nPARAMETER num_predict 12\nPARAMETER num_ctx 512\n`)
    const created = await ask(node.url, 'create', 'tiny', '-f', model)
    await Bun.file(file).delete()
    expect(created).toMatchObject({ code: 0 })
    gateway = await startTestGateway()
    customer = await gateway.customer()
    await gateway.node(node.url, { customerId: customer.customerId })
    const env = { SVC_OLLAMA_LISTEN: '127.0.0.1:0', SVC_OLLAMA_KEY: customer.key, SVC_PROCESSES: '1' }
    keyless = await startTestGateway({ beside: gateway, env })
  })
  afterAll(async () => {
    await keyless?.stop()
    await gateway?.stop()
    await node?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const ask = (url: string, ...args: string[]) => runOllama(program ?? '', { url, folder }, args)
  const here = (...args: string[]) => ask(keyless.ollamaUrl ?? '', ...args)
  const there = (...args: string[]) => ask(node.url, ...args)
  /** Rows of a table, cut where two spaces stand. */
  const rowsOf = ({ code, out, err }: Ran) => {
    expect([code, err]).toEqual([0, ''])
    return out
      .trim()
      .split('\n')
      .map((row) => row.trim().split(/ {2,}/))
  }

  test('list: the names, ids and sizes that the node’s own list has', async () => {
    const own = rowsOf(await there('list'))
    expect(own[1]?.[0]).toBe('tiny:latest')
    const listed = rowsOf(await here('list'))
    expect(listed.map((row) => row.slice(0, 3))).toEqual(own.map((row) => row.slice(0, 3)))
  })

  test('show: what the model is', async () => {
    const { code, out } = await here('show', 'tiny')
    expect(code).toBe(0)
    expect(out).toMatch(/architecture +llama/)
    const parameters = /parameters +(\S+)/.exec((await there('show', 'tiny')).out)?.[1]
    expect(out).toMatch(new RegExp(`parameters +${parameters}`))
    expect(out).toContain('completion')
  })

  test('run: a prompt is answered; ps: in memory as the node says; stop: gone from it', async () => {
    const ran = await here('run', 'tiny', 'hello')
    expect([ran.code, ran.out.trim().length > 0]).toEqual([0, true])
    await waitFor('the memory', async () => rowsOf(await here('ps')).length === 2)
    const [, own] = rowsOf(await there('ps'))
    const [, running] = rowsOf(await here('ps'))
    expect(running?.slice(0, 5)).toEqual(own?.slice(0, 5) ?? [])
    expect(await here('stop', 'tiny')).toMatchObject({ code: 0 })
    expect(rowsOf(await there('ps'))).toHaveLength(1)
    expect(rowsOf(await here('ps'))).toHaveLength(1)
  })

  test('what is managed on nodes says so, and so does a model that is nowhere', async () => {
    for (const args of [
      ['pull', 'tiny'],
      ['rm', 'tiny'],
      ['cp', 'tiny', 'other'],
      ['run', 'nowhere', 'hi'],
    ]) {
      const refused = await here(...args)
      expect([args, refused.code === 0]).toEqual([args, false])
      expect(refused.err).toContain('on the nodes')
    }
    expect(await here('stop', 'nowhere')).toMatchObject({
      code: 1,
      err: expect.stringContaining('No model has this name'),
    })
    expect(rowsOf(await there('list'))).toHaveLength(2)
  })

  // What version 0.12 does otherwise than its later suite wants comes through as it is; Responses it has not.
  test.each(ollamaSuite.filter(({ through }) => through === undefined).map((each) => [each.name, each] as const))(
    'its own suite: %s: through the gateway and at the listener as from itself',
    async (_, each) => {
      const asking = (base: string) => (path: string, body: Body | null) =>
        askServer(base, path, customer.key, body === null ? null : { model: 'tiny:latest', ...body })
      const own = await each.run(asking(node.url))
      const itself = each.steadied === true ? each.expected : own
      expect(await each.run(asking(gateway.url))).toEqual(itself)
      expect(await each.run(asking(keyless.ollamaUrl ?? ''))).toEqual(itself)
    },
  )
})
