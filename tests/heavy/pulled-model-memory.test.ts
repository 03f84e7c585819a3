import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pullSource } from '../../src/node/pulls/pull-sources.ts'
import { type AgentPulls, nodePullsPath } from '../../src/protocol/wire/nodes/pulls.ts'
import { llamaPython } from '../support/nodes/llama-server.ts'
import { startLoneAgent } from '../support/nodes/lone-agent.ts'
import { modelFolder } from '../support/nodes/model-files.ts'
import { startModelHub } from '../support/nodes/model-hub.ts'
import { waitFor } from '../support/run/wait-until.ts'

const python = await llamaPython()
const scripts = join(import.meta.dir, '../support/nodes/llama-cpp')
const minutesMs = 240_000

/** Context, width, layers, heads, heads of keys and values, inner width, vocabulary. */
const shapes = [
  [16_384, 1_024, 20, 16, 4, 3_584, 16_000],
  [8_192, 1_536, 10, 12, 12, 4_096, 12_000],
  [32_768, 768, 24, 12, 3, 3_072, 24_000],
] as const

/** Resident memory of the process that has this word among its arguments, MiB. */
async function residentMb(word: string): Promise<number> {
  const listed = Bun.spawn(['ps', '-eo', 'rss=,args='], { stdout: 'pipe' })
  const lines = (await new Response(listed.stdout).text()).split('\n')
  const found = lines.find((line) => line.includes(word) && line.includes('serve.py'))
  return Math.round(Number(/^ *(\d+)/.exec(found ?? '')?.[1]) / 1_024)
}

describe.skipIf(python === null)('§39: a pulled model by real llama.cpp', () => {
  const place = mkdtempSync(join(tmpdir(), 'penstock-sized-'))
  afterAll(() => rmSync(place, { recursive: true, force: true }))

  test.each(shapes)(
    'the estimate from its header is within 10 %% of what llama.cpp takes, and it answers a chat (%i, %i, %i, …)',
    async (context, ...shape) => {
      const file = join(place, 'sized-F16.gguf')
      const made = Bun.spawn([python ?? '', join(scripts, 'sized-model.py'), file, ...[context, ...shape].map(String)])
      expect(await made.exited).toBe(0)
      const hub = startModelHub({ 'sized-F16.gguf': readFileSync(file) })
      rmSync(file)
      const folder = modelFolder({ memory_mb: 8_000, models: [] })
      const agent = await startLoneAgent({
        dataDir: folder.path,
        serverTimes: { fileMs: 50 },
        pulls: {
          sources: [`hf=${hub.url}`].flatMap((text) => pullSource(text) ?? []),
          root: join(folder.path, 'models'),
          command: [python ?? '', join(scripts, 'serve.py'), '{file}', '{context}', '1', 'chat', '{port}', '{model}'],
        },
      })
      try {
        const body = { ref: 'hf:org/repo:F16', model: 'sized', context_length: context }
        expect((await agent.call('POST', nodePullsPath, body)).status).toBe(202)
        const pull = await waitFor(
          'the model',
          async () => {
            const { pulls } = (await (await agent.call('GET', nodePullsPath, null)).json()) as AgentPulls
            return pulls[0]?.state === 'done' ? pulls[0] : null
          },
          minutesMs,
        )
        // Long enough for a whole batch to be computed.
        const content = Array.from({ length: 300 }, (_, n) => `w${n}`).join(' ')
        const messages = [{ role: 'user', content }]
        const asked = { model: 'sized', max_tokens: 4, messages }
        const answer = await waitFor(
          'its answer',
          async () => {
            const response = await agent.call('POST', '/v1/chat/completions', asked)
            return response.status === 200 ? ((await response.json()) as { usage: { prompt_tokens: number } }) : null
          },
          minutesMs,
        )
        expect(answer.usage.prompt_tokens).toBeGreaterThan(512)
        const took = await residentMb(folder.path)
        const share = (pull.memory_mb ?? 0) / took
        console.log(`estimated ${pull.memory_mb} MiB, took ${took} MiB`)
        expect(share).toBeGreaterThan(0.9)
        expect(share).toBeLessThan(1.1)
      } finally {
        await agent.remove()
        hub.stop()
        folder.remove()
      }
    },
    minutesMs,
  )
})
