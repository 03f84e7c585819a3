import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import type { RuntimeKind } from '../../src/protocol/wire/nodes/node.ts'
import { gaugeOf } from '../../src/runtimes/answers.ts'
import { detectRuntime, runtimeModules } from '../../src/runtimes/registry.ts'
import type { RuntimeStatus } from '../../src/runtimes/runtime.ts'
import { vllm } from '../../src/runtimes/vllm.ts'
import { madeUp, recordedServers } from './recorded-servers.ts'
import { recordedStatuses } from './recorded-statuses.ts'
import { replay } from './replayed-server.ts'

describe('§8: each kind is known and read by its own signs', () => {
  for (const [name, expected] of Object.entries(recordedStatuses)) {
    test(name, () =>
      replay(name, async ({ get }) => {
        const module = await detectRuntime(get)
        expect(module?.kind).toBe(expected.kind)
        const { startMark: _, ...read } = (await module?.probe(get)) ?? {}
        expect(read as unknown).toEqual(expected)
      }),
    )
  }
})

describe('§8: the recorded answers', () => {
  const files = readdirSync(`${import.meta.dir}/fixtures`).flatMap((name) => name.match(/^(.+)\.json$/)?.[1] ?? [])

  test('each is used', () => {
    expect(files.toSorted()).toEqual([...Object.keys(recordedStatuses), 'openai-unavailable'].toSorted())
  })

  test('each is of one server, with its version and where its shape stands, or made up', () => {
    const named = recordedServers.flatMap(({ fixtures }) => fixtures)
    expect([...named, ...madeUp].toSorted()).toEqual(files.toSorted())
    for (const { kind, server, version, shownBy, fixtures } of recordedServers) {
      expect(version, server).toMatch(/\d/)
      expect(shownBy, server).toMatch(/^https:\/\/\S+$/)
      for (const fixture of fixtures) expect([fixture, recordedStatuses[fixture]?.kind]).toEqual([fixture, kind])
    }
  })

  test('each kind has some of its current version', () => {
    const current = new Set(recordedServers.filter(({ earlier }) => earlier !== true).map(({ kind }) => kind))
    // The demonstration server is ours: its own tests ask it.
    const foreign = runtimeModules.map(({ kind }) => kind).filter((kind) => kind !== 'demo')
    expect([...current].toSorted()).toEqual(foreign.toSorted())
  })

  test('docs/operations/nodes.md names the server and the version of each that is current', () => {
    const text = readFileSync(`${import.meta.dir}/../../docs/operations/nodes.md`, 'utf8').replaceAll(/\s+/g, ' ')
    // Its parts have the version of the server; OpenAI has one of the interface alone.
    const whole = recordedServers.filter(
      ({ earlier, server }) => earlier !== true && !server.includes(',') && server !== 'OpenAI',
    )
    expect(whole.length).toBeGreaterThan(5)
    for (const { server, version } of whole) expect(text).toContain(`${server} ${version}`)
  })
})

test('§8: no kind takes the answers of another for its own', async () => {
  // Any list of models is a generic server's too, which is why that one is asked last.
  const strict = runtimeModules.filter((module) => module.kind !== 'openai')
  for (const [name, { kind }] of Object.entries(recordedStatuses)) {
    const claims: RuntimeKind[] = await replay(name, async ({ get }) => {
      const answers = await Promise.all(strict.map(async (module) => ((await module.detect(get)) ? [module.kind] : [])))
      return answers.flat()
    })
    expect([name, claims]).toEqual([name, kind === 'openai' ? [] : [kind]])
  }
})

test('§22: a server that was known and is away for a moment is loading, an unknown answer is no kind', () =>
  replay('openai-unavailable', async ({ get }) => {
    expect(await detectRuntime(get)).toBeNull()
    expect(await runtimeModules.at(-1)?.probe(get)).toMatchObject({ kind: 'openai', state: 'loading', models: [] })
  }))

test('§22: a sleeping llama.cpp is not woken: neither its slots nor a completion are asked for', () =>
  replay('llama-cpp-sleeping', async ({ get, asked }) => {
    await (await detectRuntime(get))?.probe(get)
    expect([...new Set(asked)].toSorted()).toEqual(['/health', '/props', '/v1/models'])
  }))

test('§29: vLLM, SGLang and Text Generation Inference say at each poll what they work on and what waits, in one GET', async () => {
  for (const [name, load] of [
    ['vllm-ready', { running: 3, queueDepth: 1, slotsTotal: null }],
    ['vllm-all-routes', { running: undefined, queueDepth: null }],
    ['sglang-ready', { running: 5, queueDepth: 2 }],
    ['openai-tgi', { running: 4, queueDepth: 7 }],
  ] as const) {
    await replay(name, async ({ get, asked }) => {
      const module = await detectRuntime(get)
      const first = await module?.probe(get, null)
      const second = await module?.probe(get, first)
      expect([name, first?.running, first?.queueDepth]).toEqual([name, load.running, load.queueDepth])
      expect(second).toEqual(first as RuntimeStatus)
      expect(asked.filter((path) => path === '/metrics')).toHaveLength(2)
    })
  }
})

test('§29: no other server with a list of models is asked for metrics', async () => {
  for (const name of ['openai-ready', 'openai-mlx', 'openai-named'])
    await replay(name, async ({ get, asked }) => {
      await (await detectRuntime(get))?.probe(get, null)
      expect(asked).not.toContain('/metrics')
    })
})

test('§29: a gauge is the sum over the engines of a server, and what is no number of requests is none', () => {
  const name = 'vllm:num_requests_running'
  for (const [metrics, value] of [
    [`${name}{engine="0",model_name="m"} 3.0\n${name}{engine="1",model_name="m"} 2.0\n`, 5],
    [`# HELP ${name} It.\n${name} 4`, 4],
    [`${name}{tp_rank="0"} 4.0\n${name}{tp_rank="1"} 4.0`, 4],
    [`${name}{priority=""} 4.0\n${name}{priority="9"} 1.0`, 4],
    [`${name}{model_name="a b} 7"} 4.0`, 4],
    [`${name}_total{engine="0"} 9`, null],
    [`x${name} 9`, null],
    [`${name} NaN`, null],
    [`${name} -1`, null],
    [`${name} 1.5`, null],
    [`${name} 1e300`, null],
    [`${name}`, null],
    [`${name} 1\n`.repeat(1_000), 256],
  ] as const)
    expect([metrics.slice(0, 99), gaugeOf(metrics, name)]).toEqual([metrics.slice(0, 99), value])
})

test('§22: what a server says of its cache is believed where it can be, and keeps no model from serving', async () => {
  const line = (labels: string) => `vllm:cache_config_info{${labels}} 1.0`
  const told = async (metrics: () => Promise<Response>) =>
    replay('vllm-ready', async ({ get }) => {
      const status = await vllm.probe((path) => (path === '/metrics' ? metrics() : get(path)), null)
      return status.models.map(({ ready, cacheTokens }) => [ready, cacheTokens])
    })
  const as = (tokens: number | null) => [
    [true, tokens],
    [true, tokens],
  ]
  for (const [labels, tokens] of [
    ['block_size="16",num_gpu_blocks="10"', 160],
    ['mamba_block_size="32",num_gpu_blocks_override="7",block_size="16",num_gpu_blocks="10"', 160],
    ['block_size="16",num_gpu_blocks="None"', null],
    ['block_size="16",num_gpu_blocks="0"', null],
    ['block_size="16",num_gpu_blocks="-3"', null],
    ['block_size="999999999999",num_gpu_blocks="999999999999"', null],
    ['block_size="16"', null],
  ] as const)
    expect([labels, await told(async () => new Response(line(labels)))]).toEqual([labels, as(tokens)])
  expect(await told(async () => new Response(line('block_size="16",num_gpu_blocks="10"'), { status: 401 }))).toEqual(
    as(null),
  )
  expect(await told(() => Promise.reject(new Error('longer than a poll may be')))).toEqual(as(null))
})

test('§22: at most 1,000 models of one server are believed', async () => {
  const data = Array.from({ length: 5_000 }, (_, at) => ({ id: `m-${at}` }))
  const get = async () => Response.json({ object: 'list', data })
  expect((await runtimeModules.at(-1)?.probe(get))?.models.length).toBe(1_000)
})

test('a server that does not answer is a failure of the transport, not a status', async () => {
  const refused = () => Promise.reject(new TypeError('refused'))
  for (const module of runtimeModules) {
    await expect(module.detect(refused)).rejects.toThrow('refused')
    await expect(module.probe(refused)).rejects.toThrow('refused')
  }
})
