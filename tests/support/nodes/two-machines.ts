import { chmodSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Credentials } from '../../../src/host/data-folder.ts'
import { waitFor } from '../gateways/gateway.ts'
import { firstMatch } from '../gateways/gateway-process.ts'
import type { Namespaces, Place } from '../gateways/namespaces.ts'
import { processesOf } from '../gateways/npm-start.ts'

const root = resolve(import.meta.dir, '../../..')
const port = 7070

/** A gateway on one machine; on the other, which can be reached by nobody, a fake model server and the agent. */
export interface TwoMachines {
  readonly net: Namespaces
  readonly dir: string
  readonly baseUrl: string
  credentials(): Credentials
  /** Starts a program and waits for what it writes. */
  begin(where: Place, command: readonly string[], until: RegExp, env?: Readonly<Record<string, string>>): Promise<Begun>
  /** Runs a program to its end; rejects unless it succeeds. */
  run(where: Place, command: readonly string[]): Promise<string>
  curl(where: Place, url: string, ...args: readonly string[]): Promise<string>
  /** GET of an admin route. */
  admin<T>(path: string): Promise<T>
  /** The line of `nodes enroll`, pasted on the other machine; resolves with the node's id when it is ready. */
  enrollHome(): Promise<string>
  stop(): Promise<void>
}

export interface Begun {
  readonly child: Bun.Subprocess<'ignore', 'pipe', 'pipe'>
  readonly match: RegExpExecArray
}

export const fakeServerUrl = 'http://127.0.0.1:8000'
export const penstock = (...args: readonly string[]) => ['bun', join(root, 'src/cli/main.ts'), ...args]

/** `models`: of the fake server at home. */
export async function startTwoMachines(net: Namespaces, models: readonly string[]): Promise<TwoMachines> {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'penstock-net-')))
  // The embedded PostgreSQL runs as another user.
  chmodSync(dir, 0o755)
  for (const name of ['gateway', 'home', 'bin']) mkdirSync(join(dir, name))
  symlinkSync(process.execPath, join(dir, 'bin', 'bun'))
  const machines = new RunningMachines(net, dir)
  await machines.begin('gateway', ['bun', join(root, 'src/main.ts')], /is ready/, {
    SVC_HOST: net.gatewayAddress,
    SVC_PORT: String(port),
    SVC_DISCOVER: 'false',
    SVC_WARM_UP: 'false',
    SVC_DEMO: 'never',
    SVC_LOG_LEVEL: 'warn',
    SVC_SHUTDOWN_GRACE_MS: '500',
  })
  const listen = ['--listen', new URL(fakeServerUrl).host, '--speaks', 'vllm', '--json']
  const served = models.flatMap((model) => ['--model', model])
  await machines.begin('home', penstock('fake-node', ...served, ...listen), /"url"/)
  return machines
}

class RunningMachines implements TwoMachines {
  readonly baseUrl: string
  private readonly children: Bun.Subprocess[] = []

  constructor(
    readonly net: Namespaces,
    readonly dir: string,
  ) {
    this.baseUrl = `http://${net.gatewayAddress}:${port}`
  }

  credentials(): Credentials {
    return JSON.parse(readFileSync(join(this.dir, 'data', 'credentials.json'), 'utf8')) as Credentials
  }

  async begin(where: Place, command: readonly string[], until: RegExp, env = {}): Promise<Begun> {
    const child = this.net.spawn(where, command, { env: { ...this.env(where), ...env }, cwd: root })
    this.children.push(child)
    return { child, match: await firstMatch(child.stdout, until) }
  }

  run(where: Place, command: readonly string[]): Promise<string> {
    return this.net.run(where, command, { env: this.env(where), cwd: root })
  }

  curl(where: Place, url: string, ...args: readonly string[]): Promise<string> {
    return this.run(where, ['curl', '-sS', '--max-time', '30', ...args, url])
  }

  async admin<T>(path: string): Promise<T> {
    const token = `x-svc-admin-token: ${this.credentials().admin_token}`
    return JSON.parse(await this.curl('gateway', this.baseUrl + path, '-H', token)) as T
  }

  async enrollHome(): Promise<string> {
    const token = await this.run('gateway', penstock('nodes', 'enroll', 'home', '--json'))
    const { line } = JSON.parse(token) as { readonly line: string }
    const { match } = await this.begin('home', ['sh', '-c', line], /This node is (node_\w+)/)
    const nodeId = match[1] ?? ''
    const state = async () => (await this.admin<{ state: string }>(`/v1/admin/nodes/${nodeId}`)).state
    await waitFor('the node is ready', async () => (await state()) === 'ready')
    return nodeId
  }

  async stop(): Promise<void> {
    for (const child of this.children.toReversed()) child.kill('SIGTERM')
    await Promise.all(this.children.map((child) => child.exited))
    const { postmaster } = processesOf(join(this.dir, 'data'))
    if (postmaster !== null) process.kill(postmaster, 'SIGKILL')
    this.net.remove()
    rmSync(this.dir, { recursive: true, force: true })
  }

  private env(where: Place): Readonly<Record<string, string>> {
    const path = `${join(this.dir, 'bin')}:${process.env.PATH}`
    return { HOME: join(this.dir, where), PATH: path, SVC_DATA_DIR: join(this.dir, 'data') }
  }
}
