import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../gateways/free-port.ts'
import { firstMatch } from '../gateways/gateway-process.ts'
import { waitUntil } from '../run/wait-until.ts'

type Environment = Readonly<Record<string, string>>
export type Fields = Readonly<Record<string, unknown>>

/** The agent of a checkout, in a process of its own. */
export interface CheckoutAgent {
  readonly nodeId: string
  stop(): Promise<void>
}

/**
 * A checkout of some release, worked by its own commands. Each folder of `work` belongs to one of its programs: `data` to
 * the gateway, `agent` to the agent, `home` to who types commands.
 */
export class Checkout {
  readonly dataDir: string
  readonly agentDir: string
  private readonly home: string

  constructor(
    readonly root: string,
    readonly work: string,
  ) {
    this.dataDir = join(work, 'data')
    this.agentDir = join(work, 'agent')
    this.home = join(work, 'home')
    mkdirSync(this.home, { recursive: true })
  }

  private program(entry: string, args: readonly string[], env: Environment) {
    return Bun.spawn([process.execPath, join(this.root, entry), ...args], {
      cwd: this.home,
      env: { PATH: process.env.PATH ?? '', HOME: this.home, SVC_DATA_DIR: this.dataDir, ...env },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    })
  }

  /** What a command prints. Throws unless it ends with 0. */
  async command(args: readonly string[], env: Environment = {}): Promise<string> {
    const child = this.program('src/cli/main.ts', args, env)
    const [out, err, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ])
    if (code !== 0) throw new Error(`${args.slice(0, 2).join(' ')} ended with ${code}: ${out}${err}`)
    return out
  }

  /** The environment of somebody with a computer of their own, who knows the gateway as this customer. */
  customer(baseUrl: string, { id, token }: { readonly id: string; readonly token: string }): Environment {
    const home = join(this.work, `home-${id}`)
    const folder = join(home, '.config/penstock')
    mkdirSync(folder, { recursive: true })
    const credentials = { base_url: baseUrl, customer_id: id, customer_token: token }
    writeFileSync(join(folder, 'credentials.json'), JSON.stringify(credentials))
    return { HOME: home, SVC_DATA_DIR: join(home, 'none') }
  }

  async json(args: readonly string[], env: Environment = {}): Promise<Fields> {
    return JSON.parse(await this.command([...args, '--json'], env)) as Fields
  }

  /** Its gateway with an embedded database. Resolves when it is ready. */
  async startGateway(env: Environment = {}) {
    const port = freePort()
    const url = `http://127.0.0.1:${port}`
    const child = this.program('src/main.ts', [], {
      SVC_PORT: String(port),
      SVC_DISCOVER: 'false',
      SVC_DEMO: 'never',
      SVC_LOG_LEVEL: 'error',
      SVC_POLL_INTERVAL_MS: '100',
      SVC_LOG_INTERVAL_MS: '100',
      ...env,
    })
    await waitUntil('the gateway', async () => {
      if (child.exitCode !== null) throw new Error(await new Response(child.stderr).text())
      return fetch(`${url}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      )
    })
    // A gateway that is told its tokens writes none down.
    const adminToken = env.SVC_ADMIN_TOKENS ?? this.credentials().admin_token
    return {
      url,
      adminToken: String(adminToken),
      stop: async () => {
        child.kill('SIGTERM')
        await child.exited
      },
    }
  }

  private credentials(): Fields {
    return JSON.parse(readFileSync(join(this.dataDir, 'credentials.json'), 'utf8')) as Fields
  }

  /** Its agent, with one model server beside it. `joins`: what an enrolment takes; nothing where the folder has one. */
  async startAgent(runtime: string, joins: readonly string[] = []): Promise<CheckoutAgent> {
    const own = ['--data-dir', this.agentDir, '--listen', '127.0.0.1:0', '--no-discover', '--runtime', runtime]
    const child = this.program('src/cli/main.ts', ['node', ...own, ...joins, '--json'], {})
    const said = new Response(child.stderr).text()
    const found = await firstMatch(child.stdout, /"node_id":"([^"]+)"/).catch(async (error: unknown) => {
      throw new Error(`${error}\n${await said}`)
    })
    return {
      nodeId: found[1] ?? '',
      stop: async () => {
        child.kill('SIGTERM')
        await child.exited
      },
    }
  }
}
