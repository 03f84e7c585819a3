import { expect, test } from 'bun:test'
import { discover } from '../../src/runtimes/discovery.ts'
import { runtimeModules } from '../../src/runtimes/registry.ts'
import type { RuntimeModule } from '../../src/runtimes/runtime.ts'
import { waitLimitMs } from '../support/run/limits.ts'
import { recordedServers } from './recorded-servers.ts'
import { replay } from './replayed-server.ts'

const fetchFor = (port: number, signal: AbortSignal) => (path: string) =>
  fetch(`http://127.0.0.1:${port}${path}`, { signal })

/** The modules as they are, but with ports that a test may hold. */
function at(ports: Readonly<Partial<Record<string, readonly number[]>>>): readonly RuntimeModule[] {
  return runtimeModules.map((module) => ({ ...module, ports: ports[module.kind] ?? [] }))
}

function closedPort(): number {
  const server = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  server.stop(true)
  return server.port
}

test('§22: discovery looks at Ollama 11434, LM Studio 1234, llama.cpp 8080 and 9931, and vLLM 8000', async () => {
  const looked = new Set<number>()
  const found = await discover({
    timeoutMs: 1_000,
    except: [8080],
    fetchFor: (port) => () => {
      looked.add(port)
      return Promise.reject(new Error('refused'))
    },
  })
  expect(found).toEqual([])
  expect([...looked].toSorted((a, b) => a - b)).toEqual([1234, 8000, 9931, 11_434])
})

test('§22: what stands on a port counts, not whose port it is; refusing and silent ports are passed over', () =>
  replay('ollama-ready', (ollama) =>
    replay('llama-cpp-loading', async (llama) => {
      const opened = Promise.withResolvers<void>()
      const silent = Bun.listen({
        hostname: '127.0.0.1',
        port: 0,
        socket: { open: () => opened.resolve(), data() {} },
      })
      const modules = at({ vllm: [ollama.port], ollama: [closedPort(), silent.port], 'llama.cpp': [llama.port] })
      // The silent port is all that takes so long.
      const found = await discover({ fetchFor, modules, timeoutMs: 3_000 })
      await opened.promise
      silent.stop(true)
      const kinds = new Map(found.map(({ port, module }) => [port, module.kind]))
      expect(kinds).toEqual(
        new Map([
          [ollama.port, 'ollama'],
          [llama.port, 'llama.cpp'],
        ]),
      )
    }),
  ))

test('§22: each kind is found by what its current version says', async () => {
  const current = recordedServers.filter(({ earlier }) => earlier !== true)
  for (const { kind, fixtures } of current) {
    for (const fixture of fixtures) {
      await replay(fixture, async ({ port }) => {
        const found = await discover({
          fetchFor,
          modules: at({ vllm: [port] }),
          timeoutMs: waitLimitMs,
        })
        expect([fixture, found.map(({ module }) => module.kind)]).toEqual([fixture, [kind]])
      })
    }
  }
})

test('§22: our own port is not looked at', () =>
  replay('openai-ready', async ({ port, asked }) => {
    expect(await discover({ fetchFor, modules: at({ vllm: [port] }), except: [port], timeoutMs: 500 })).toEqual([])
    expect(asked).toEqual([])
  }))

test('all requests end with the discovery: none outlives its timeout', async () => {
  const aborted = Promise.withResolvers<void>()
  await discover({
    modules: at({ ollama: [closedPort()] }),
    timeoutMs: 20,
    fetchFor: (_, signal) => () =>
      new Promise(() => signal.addEventListener('abort', () => aborted.resolve(), { once: true })),
  })
  await aborted.promise
})
