import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Credentials } from '../../src/data-folder.ts'
import type { EnrollmentTokenIssued } from '../../src/protocol/wire/enrollment.ts'
import { waitFor } from '../support/gateway.ts'
import { firstMatch } from '../support/gateway-process.ts'
import { makeNamespaces, type Namespaces } from '../support/namespaces.ts'
import { processesOf } from '../support/npm-start.ts'

const root = resolve(import.meta.dir, '..', '..')
const startMs = 60_000
const port = 7070
const made = makeNamespaces(`pst${process.pid}`)
const refusal = typeof made === 'string' ? made : ''

describe.skipIf(refusal !== '')(`two machines as network namespaces ${refusal && `(${refusal})`}`.trim(), () => {
  const net = made as Namespaces
  const children: Bun.Subprocess[] = []
  let dir: string
  let baseUrl: string
  let path: string

  const begin = async (where: 'gateway' | 'home', command: readonly string[], until: RegExp, env = {}) => {
    const child = net.spawn(where, command, { env: { HOME: join(dir, where), PATH: path, ...env }, cwd: root })
    children.push(child)
    return firstMatch(child.stdout, until)
  }
  const penstock = (...args: readonly string[]) => ['bun', join(root, 'src/cli/main.ts'), ...args]
  const credentials = () => JSON.parse(readFileSync(join(dir, 'data', 'credentials.json'), 'utf8')) as Credentials
  const curl = (where: 'gateway' | 'home', url: string, ...args: readonly string[]) =>
    net.run(where, ['curl', '-sS', '--max-time', '10', ...args, url])
  const stats = async () =>
    JSON.parse(await curl('home', 'http://127.0.0.1:8000/stats')) as Readonly<Record<string, number>>

  beforeAll(async () => {
    dir = realpathSync(mkdtempSync(join(tmpdir(), 'penstock-net-')))
    chmodSync(dir, 0o755)
    for (const name of ['gateway', 'home', 'bin']) mkdirSync(join(dir, name))
    symlinkSync(process.execPath, join(dir, 'bin', 'bun'))
    path = `${join(dir, 'bin')}:${process.env.PATH}`
    baseUrl = `http://${net.gatewayAddress}:${port}`
    await begin('gateway', ['bun', join(root, 'src/main.ts')], /is ready/, {
      SVC_DATA_DIR: join(dir, 'data'),
      SVC_HOST: net.gatewayAddress,
      SVC_PORT: String(port),
      SVC_DISCOVER: 'false',
      SVC_DEMO: 'never',
      SVC_LOG_LEVEL: 'warn',
      SVC_SHUTDOWN_GRACE_MS: '500',
    })
    const models = ['--model', 'm-home', '--speaks', 'vllm']
    await begin('home', penstock('fake-node', '--listen', '127.0.0.1:8000', ...models, '--json'), /"url"/)
  }, startMs)

  afterAll(async () => {
    for (const child of children.toReversed()) child.kill('SIGTERM')
    await Promise.all(children.map((child) => child.exited))
    const { postmaster } = processesOf(join(dir, 'data'))
    if (postmaster !== null) process.kill(postmaster, 'SIGKILL')
    net.remove()
    rmSync(dir, { recursive: true, force: true })
  }, startMs)

  test(
    '§22: the one line makes the other machine a node, though it can be reached by nobody',
    async () => {
      const token = await net.run('gateway', penstock('nodes', 'enroll', 'home', '--json'), {
        env: { SVC_DATA_DIR: join(dir, 'data'), HOME: join(dir, 'gateway'), PATH: path },
      })
      const { line } = JSON.parse(token) as EnrollmentTokenIssued & { readonly line: string }
      const shown = await begin('home', ['sh', '-c', line], /This machine is (node_\w+)/)
      expect(shown[1]).toStartWith('node_')
      const headers = ['-H', `x-svc-admin-token: ${credentials().admin_token}`]
      await waitFor(
        'the node is ready',
        async () => (await curl('gateway', `${baseUrl}/v1/admin/nodes/${shown[1]}`, ...headers)).includes('"ready"'),
        startMs,
      )
      const listening = (await net.run('home', ['cat', '/proc/net/tcp', '/proc/net/tcp6']))
        .split('\n')
        .map((row) => row.trim().split(/\s+/))
        .filter((row) => row[3] === '0A')
      expect(listening.length).toBeGreaterThanOrEqual(2)
      for (const row of listening) expect(row[1]).toStartWith('0100007F:')
      for (const closed of [7_071, 8_000]) {
        const asked = curl('gateway', `http://${net.homeAddress}:${closed}/`)
        await expect(asked).rejects.toThrow(/refused|connect/i)
      }
    },
    startMs,
  )

  test(
    "§22: chat, stream and cancel through the tunnel, by OpenAI's own client",
    async () => {
      await curl('home', 'http://127.0.0.1:8000/answer', '-d', '{"chunks":20,"intervalMs":20}')
      const client = net.run(
        'gateway',
        [
          'bun',
          join(root, 'tests/support/namespace-client.ts'),
          `${baseUrl}/v1/api`,
          credentials().gateway_key,
          'm-home',
        ],
        { env: { HOME: dir, PATH: path }, cwd: root },
      )
      const [chat, stream, cancel] = (await client)
        .trim()
        .split('\n')
        .map((text) => JSON.parse(text) as Record<string, unknown>)
      expect(chat).toMatchObject({ did: 'chat', text: expect.stringMatching(/fake-/) })
      expect(stream).toMatchObject({ did: 'stream', pieces: 20, finish: 'stop', text: expect.stringMatching(/fake-/) })
      expect(cancel).toEqual({ did: 'cancel', seen: 3 })
      await waitFor('the server knows that the client left', async () => (await stats()).abortedStreams === 1)
      expect(await stats()).toMatchObject({ openRequests: 0, openStreams: 0 })
    },
    startMs,
  )

  test(
    '§12: on the machine itself documents are ranked, for the local token and for a gateway key',
    async () => {
      const folder = join(dir, 'home', '.local/share/penstock/node')
      const { local_token } = JSON.parse(readFileSync(join(folder, 'local-token.json'), 'utf8')) as {
        readonly local_token: string
      }
      const body = JSON.stringify({ model: 'lexical/bm25', query: 'b', documents: ['a', 'b'], top_n: 1 })
      const rank = (token: string) =>
        curl(
          'home',
          'http://127.0.0.1:7071/v1/rerank',
          ...['-H', `authorization: Bearer ${token}`, '-H', 'content-type: application/json', '-d', body],
        )
      const results = [{ index: 1, relevance_score: expect.any(Number) }]
      for (const token of [local_token, credentials().gateway_key])
        expect(JSON.parse(await rank(token))).toEqual({ results })
      const wrong = JSON.parse(await rank(`${local_token.slice(0, -1)}!`)) as { readonly code: string }
      expect(wrong.code).toBe('invalid_credentials')
      expect(readdirSync(folder)).toContain('identity.json')
    },
    startMs,
  )
})
