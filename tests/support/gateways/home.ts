import { chmodSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Credentials } from '../../../src/host/data-folder.ts'
import { waitFor } from './gateway.ts'
import { firstMatch } from './gateway-process.ts'
import type { HomeNetwork } from './home-network.ts'
import { processesOf } from './npm-start.ts'

const root = resolve(import.meta.dir, '../../..')
export const minuteMs = 60_000
export const program = (name: string) => ['bun', join(root, 'tests/support/nodes', name)]
export const penstock = (...args: readonly string[]) => ['bun', join(root, 'src/cli/main.ts'), ...args]

/** A person at the terminal of a computer. */
export interface Sitting {
  text(): string
  type(keys: string): void
  readonly exited: Promise<number>
}

export interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Programs on the computers of a home, in a folder of their own. One of the computers is called `gateway`. */
export class Home<C extends string> {
  readonly gatewayUrl: string
  private readonly children: Bun.Subprocess[] = []
  private readonly dir: string

  constructor(
    private readonly net: HomeNetwork<C>,
    computers: readonly C[],
  ) {
    this.dir = realpathSync(mkdtempSync(join(tmpdir(), 'penstock-home-')))
    // The embedded PostgreSQL runs as another user.
    chmodSync(this.dir, 0o755)
    for (const name of [...computers, 'bin']) mkdirSync(join(this.dir, name))
    const bun = join(this.dir, 'bin', 'bun')
    writeFileSync(bun, `#!/bin/sh\nexec ${process.execPath} "$@"\n`)
    chmodSync(bun, 0o755)
    this.gatewayUrl = `http://${net.addressOf('gateway' as C)}:7070`
  }

  private env(computer: C): Record<string, string> {
    return {
      PATH: `${join(this.dir, 'bin')}:${process.env.PATH}`,
      HOME: join(this.dir, computer),
      SVC_DATA_DIR: join(this.dir, 'data'),
      TERM: 'xterm',
    }
  }

  /** Starts a program and waits for what it writes. */
  async begin(
    on: C,
    command: readonly string[],
    until: RegExp,
    more: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    const child = Bun.spawn([...this.net.on(on, command)], {
      cwd: root,
      env: { ...this.env(on), ...more },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    this.children.push(child)
    await firstMatch(child.stdout, until)
  }

  /** Resolves when the gateway is ready. */
  async beginGateway(more: Readonly<Record<string, string>> = {}): Promise<void> {
    await this.begin('gateway' as C, ['bun', join(root, 'src/main.ts')], /is ready/, {
      SVC_HOST: '0.0.0.0',
      SVC_DISCOVER: 'false',
      SVC_DEMO: 'never',
      SVC_LOG_LEVEL: 'warn',
      SVC_SHUTDOWN_GRACE_MS: '500',
      ...more,
    })
  }

  async run(on: C, command: readonly string[]): Promise<Ran> {
    const stdio = ['ignore', 'pipe', 'pipe'] as const
    const child = Bun.spawn([...this.net.on(on, command)], { cwd: root, env: this.env(on), stdio: [...stdio] })
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
    return { code: await child.exited, out, err }
  }

  sit(on: C, command: readonly string[]): Sitting {
    const decoder = new TextDecoder()
    let text = ''
    const data = (_: unknown, bytes: Uint8Array) => {
      text += decoder.decode(bytes, { stream: true })
    }
    const child = Bun.spawn([...this.net.on(on, command)], {
      cwd: root,
      env: this.env(on),
      terminal: { cols: 100, rows: 30, data },
    })
    this.children.push(child)
    return {
      text: () => text.replaceAll(/\u001b\[[0-9;?]*[A-Za-z]/g, ''),
      type: (keys) => void child.terminal?.write(keys),
      exited: child.exited,
    }
  }

  credentials(): Credentials {
    return JSON.parse(readFileSync(join(this.dir, 'data', 'credentials.json'), 'utf8')) as Credentials
  }

  /** A chat of a program on that computer. `key`: absent: the operator's own. */
  chat(on: C, body: object, key = this.credentials().gateway_key): Promise<Ran> {
    const chat = ['curl', '-sS', '-N', '--max-time', '60', `${this.gatewayUrl}/v1/chat/completions`]
    const head = ['-H', `authorization: Bearer ${key}`, '-H', 'content-type: application/json', '-d']
    return this.run(on, [...chat, ...head, JSON.stringify(body)])
  }

  async stop(): Promise<void> {
    for (const child of this.children.toReversed()) child.kill('SIGTERM')
    await Promise.all(this.children.map((child) => child.exited))
    const { postmaster } = processesOf(join(this.dir, 'data'))
    if (postmaster !== null) process.kill(postmaster, 'SIGKILL')
    rmSync(this.dir, { recursive: true, force: true })
  }
}

/** Resolves with the match of what the program has written. */
export const says = (person: Sitting, pattern: RegExp) =>
  waitFor(`${pattern} of ${person.text()}`, () => pattern.exec(person.text()), minuteMs)

/** Of a join, as the person at the computer reads them. */
export async function wordsOf(person: Sitting): Promise<string> {
  await says(person, /the same six words\? \[y\/N\]/)
  return /^ +([a-z]+(?: [a-z]+){5})\r?$/m.exec(person.text())?.[1] ?? ''
}

/** An agent that asks to join. */
export const agent = (...more: readonly string[]) => penstock('node', '--listen', '127.0.0.1:0', ...more)
