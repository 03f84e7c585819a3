import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { EnrollmentTokenIssued } from '../../src/protocol/wire/nodes/enrollment.ts'
import { waitFor } from '../support/gateways/gateway.ts'
import { Home, minuteMs, penstock } from '../support/gateways/home.ts'
import { type HomeNetwork, makeHomeNetwork } from '../support/gateways/home-network.ts'
import { llamaCommand, llamaPython, writeTinyModel } from '../support/nodes/llama-server.ts'
import { sha256 } from '../support/nodes/model-hub.ts'

const computers = ['gateway', 'attic', 'shed', 'phone'] as const
type Computer = (typeof computers)[number]
const contextTokens = 512
const python = await llamaPython()
const made = python === null ? 'no llama.cpp: PyPI is not reached' : makeHomeNetwork(`psc${process.pid}`, computers)
const refusal = typeof made === 'string' ? made : ''

describe.skipIf(refusal !== '')(`§39: a model in a home of four computers ${refusal && `(${refusal})`}`.trim(), () => {
  const net = made as HomeNetwork<Computer>
  const scripts = join(import.meta.dir, '../support/nodes/llama-cpp')
  let home: Home<Computer>
  let dir: string
  let weights: string

  const folderOf = (computer: Computer) => join(dir, computer)
  /** Reached by nobody: it dials out, and its tunnel is the only way to it. */
  async function node(on: Computer, models: readonly object[], more: readonly string[]): Promise<void> {
    mkdirSync(folderOf(on))
    writeFileSync(join(folderOf(on), 'models.json'), JSON.stringify({ memory_mb: 8_000, models }))
    chmodSync(folderOf(on), 0o700)
    const { out, code } = await home.run('gateway', penstock('nodes', 'enroll', on, '--json'))
    expect(code).toBe(0)
    const { enrollment_token: token } = JSON.parse(out) as EnrollmentTokenIssued
    const where = ['--gateway', home.gatewayUrl, '--insecure', '--token', token, '--data-dir', folderOf(on)]
    const listens = ['--listen', '127.0.0.1:0', '--no-discover', '--json']
    await home.begin(on, penstock('node', ...where, ...listens, ...more), /"node_id"/)
  }

  beforeAll(async () => {
    home = new Home(net, computers)
    dir = mkdtempSync(join(tmpdir(), 'penstock-home-models-'))
    const written = await writeTinyModel(python ?? '', contextTokens)
    weights = join(dir, 'tiny.gguf')
    copyFileSync(written, weights)
    rmSync(written)
    await home.beginGateway()
    const command = llamaCommand(python ?? '', weights, 'tiny', contextTokens, 1)
    await node('attic', [{ id: 'tiny', command, memory_mb: 200, files: [{ path: weights }] }], ['--give-models'])
    const fetched = [python ?? '', join(scripts, 'serve.py'), '{file}', '{context}', '1', 'chat', '{port}', '{model}']
    await node('shed', [], ['--pull-from', 'nodes', '--pull-command', JSON.stringify(fetched)])
  }, 3 * minuteMs)
  afterAll(async () => {
    await home?.stop()
    if (dir !== undefined) rmSync(dir, { recursive: true, force: true })
    if (typeof made !== 'string') made.remove()
  }, minuteMs)

  const shedsFile = () => {
    const [found] = readdirSync(join(folderOf('shed'), 'models'), { recursive: true, withFileTypes: true }).filter(
      ({ name }) => name.endsWith('.gguf'),
    )
    return found === undefined ? '' : join(found.parentPath, found.name)
  }

  test(
    'is copied over the tunnels of two agents that only dial out, and llama.cpp answers a phone with it where it has come',
    async () => {
      expect(
        await home.run('shed', ['curl', '-sS', '--max-time', '2', `http://${net.addressOf('attic')}:7071/`]),
      ).toMatchObject({
        code: 7,
      })
      const words = ['models', 'copy', 'tiny', '--from', 'attic', '--to', 'shed', '--name', 'ours']
      const copied = await waitFor(
        'the copy',
        async () => {
          const ran = await home.run('gateway', penstock(...words))
          // Until both tunnels stand.
          return ran.code === 0 ? ran : null
        },
        3 * minuteMs,
      )
      expect(copied.out).toContain('ours is on shed: about ')
      expect(sha256(readFileSync(shedsFile()))).toBe(sha256(readFileSync(weights)))
      const asked = { model: 'ours', max_tokens: 4, messages: [{ role: 'user', content: 'w1 w2 w3' }] }
      const answer = await waitFor(
        'an answer on the phone',
        async () => {
          const { out } = await home.chat('phone', asked)
          return out.includes('"choices"') ? (JSON.parse(out) as { usage: { completion_tokens: number } }) : null
        },
        3 * minuteMs,
      )
      expect(answer.usage.completion_tokens).toBeGreaterThan(0)
      const { models } = JSON.parse(readFileSync(join(folderOf('shed'), 'models.json'), 'utf8'))
      expect(models).toMatchObject([
        { id: 'ours', files: [{ path: shedsFile(), sha256: sha256(readFileSync(weights)) }] },
      ])
      expect(dirname(shedsFile())).toStartWith(join(folderOf('shed'), 'models'))
    },
    8 * minuteMs,
  )
})

test('this machine copies a model in a home, or says here why not', () => {
  expect(typeof made === 'string' ? made : 'made').not.toBe('')
})
