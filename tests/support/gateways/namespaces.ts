/** Two machines on one cable, as network namespaces: nothing of this machine's own network is in them. */
export interface Namespaces {
  /** Address of the first machine on the cable. */
  readonly gatewayAddress: string
  readonly homeAddress: string
  spawn(where: Place, command: readonly string[], options?: SpawnOptions): Bun.Subprocess<'ignore', 'pipe', 'pipe'>
  /** Runs it to its end; rejects unless it succeeds. */
  run(where: Place, command: readonly string[], options?: SpawnOptions): Promise<string>
  /** Pulls the cable, or puts it back. */
  cable(state: 'up' | 'down'): void
  remove(): void
}
export type Place = 'gateway' | 'home'

export interface SpawnOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

function ip(...args: readonly string[]): string | null {
  try {
    const { exitCode, stderr } = Bun.spawnSync(['ip', ...args], { stdout: 'ignore', stderr: 'pipe' })
    return exitCode === 0 ? null : stderr.toString().trim()
  } catch {
    return 'there is no command ip'
  }
}

/** The text says why this machine may not make any. */
export function makeNamespaces(name: string): Namespaces | string {
  const names = { gateway: `${name}-gw`, home: `${name}-home` }
  const addresses = { gateway: '10.213.0.1', home: '10.213.0.2' }
  const remove = () => {
    for (const one of Object.values(names)) ip('netns', 'del', one)
  }
  const steps: readonly (readonly string[])[] = [
    ['netns', 'add', names.gateway],
    ['netns', 'add', names.home],
    ['link', 'add', 'cable', 'netns', names.gateway, 'type', 'veth', 'peer', 'name', 'cable', 'netns', names.home],
    ...(['gateway', 'home'] as const).flatMap((place) => [
      ['-n', names[place], 'addr', 'add', `${addresses[place]}/30`, 'dev', 'cable'],
      ['-n', names[place], 'link', 'set', 'cable', 'up'],
      ['-n', names[place], 'link', 'set', 'lo', 'up'],
    ]),
  ]
  for (const step of steps) {
    const fault = ip(...step)
    if (fault === null) continue
    remove()
    return fault
  }
  const spawn: Namespaces['spawn'] = (where, command, { env = {}, cwd } = {}) =>
    Bun.spawn(['ip', 'netns', 'exec', names[where], ...command], {
      env: { PATH: process.env.PATH ?? '', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      ...(cwd === undefined ? {} : { cwd }),
    })
  return {
    gatewayAddress: addresses.gateway,
    homeAddress: addresses.home,
    spawn,
    async run(where, command, options) {
      const child = spawn(where, command, options)
      const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
      if ((await child.exited) !== 0) throw new Error(`${command.slice(0, 3).join(' ')}: ${err}${out}`)
      return out
    },
    // The end at home: without its own the gateway could not be reached from its own machine either.
    cable: (state) => void ip('-n', names.home, 'link', 'set', 'cable', state),
    remove,
  }
}
