import { afterEach, expect, test } from 'bun:test'
import { llamaCpp } from '../../src/runtimes/llama-cpp.ts'
import type { RuntimeStatus } from '../../src/runtimes/runtime.ts'

const cleanups: (() => unknown)[] = []
afterEach(() => {
  for (const clean of cleanups.splice(0)) clean()
})

/** A llama.cpp server that can be started anew with other adapters between two polls. `process`: null without `--metrics`. */
function server(start: { process: string | null; build: unknown; adapters: readonly string[]; sleeping: boolean }) {
  let asked = 0
  const answers = (path: string): Response => {
    const { process, build, adapters, sleeping } = start
    if (path === '/health') return Response.json({ status: 'ok' })
    if (path === '/v1/models') return Response.json({ data: [{ id: 'base', owned_by: 'llamacpp' }] })
    if (path === '/props')
      return Response.json({ is_sleeping: sleeping, total_slots: 2, build_info: build, model_path: '/m/base.gguf' })
    if (path === '/metrics' && process !== null)
      return new Response('llamacpp:requests_processing 0\nllamacpp:requests_deferred 0\n', {
        headers: { 'Process-Start-Time-Unix': process },
      })
    if (path === '/lora-adapters') {
      asked++
      return Response.json(adapters.map((name, id) => ({ id, path: `/lora/${name}.gguf`, scale: 1 })))
    }
    return new Response('', { status: 404 })
  }
  const http = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: ({ url }) => answers(new URL(url).pathname) })
  cleanups.push(() => http.stop(true))
  let before: RuntimeStatus | null = null
  const poll = async () => {
    before = await llamaCpp.probe((path) => fetch(`http://127.0.0.1:${http.port}${path}`), before)
    const adapters = before.models.filter(({ adapts }) => adapts !== undefined)
    return { asked, adapters: adapters.map(({ id, askedWith }) => [id, askedWith]) }
  }
  return { poll, start }
}
const lora = (id: number) => ({ lora: [{ id, scale: 1 }] })
const both = [
  ['tone', lora(0)],
  ['law', lora(1)],
]

test('§37: a llama.cpp server that was started anew between two polls is asked for its adapters again', async () => {
  const { poll, start } = server({ process: '17', build: 'b1', adapters: ['tone', 'law'], sleeping: false })
  expect(await poll()).toEqual({ asked: 1, adapters: both })
  expect(await poll()).toEqual({ asked: 1, adapters: both })
  Object.assign(start, { process: '18', adapters: ['law'] })
  expect(await poll()).toEqual({ asked: 2, adapters: [['law', lora(0)]] })
  // One that sleeps is the same one, and is not woken.
  Object.assign(start, { sleeping: true })
  expect(await poll()).toEqual({ asked: 2, adapters: [['law', lora(0)]] })
  Object.assign(start, { sleeping: false })
  expect((await poll()).asked).toBe(3)
})

test('§37: without metrics its properties tell that it is another one', async () => {
  const { poll, start } = server({ process: null, build: 'b1', adapters: ['tone'], sleeping: false })
  expect(await poll()).toEqual({ asked: 1, adapters: [['tone', lora(0)]] })
  Object.assign(start, { build: 'b2', adapters: [] })
  expect(await poll()).toEqual({ asked: 2, adapters: [] })
})

test('§37: properties of an odd form are no sign of a start, and no fault of the server', async () => {
  const { poll, start } = server({ process: null, build: { toString: 1 }, adapters: ['tone'], sleeping: false })
  expect(await poll()).toEqual({ asked: 1, adapters: [['tone', lora(0)]] })
  Object.assign(start, { build: ['b', { toString: 1 }] })
  expect(await poll()).toEqual({ asked: 1, adapters: [['tone', lora(0)]] })
})
