/** The network of a home, as network namespaces: computers on one switch, and nothing beyond. */
export interface HomeNetwork<C extends string> {
  addressOf(computer: C): string
  /** The command as it runs on that computer. */
  on(computer: C, command: readonly string[]): readonly string[]
  /** The hardware address of its card. */
  macOf(computer: C): string
  /** Plugs its cable in, or pulls it. A computer that is asleep has no link. */
  link(computer: C, state: 'up' | 'down'): void
  isUp(computer: C): boolean
  /** The names of a computer's interfaces. */
  interfaces(computer: C): readonly string[]
  remove(): void
}

interface Ran {
  readonly fault: string | null
  readonly out: string
}

function ip(...args: readonly string[]): Ran {
  try {
    const { exitCode, stdout, stderr } = Bun.spawnSync(['ip', ...args], { stdout: 'pipe', stderr: 'pipe' })
    return { fault: exitCode === 0 ? null : stderr.toString().trim(), out: stdout.toString() }
  } catch {
    return { fault: 'there is no command ip', out: '' }
  }
}

/** The text says why this machine may not make any. */
export function makeHomeNetwork<const C extends string>(
  name: string,
  computers: readonly C[],
): HomeNetwork<C> | string {
  const spaceOf = (computer: C | 'switch') => `${name}-${computer}`
  const addressOf = (computer: C) => `10.214.0.${computers.indexOf(computer) + 1}`
  const remove = () => {
    for (const one of [...computers, 'switch'] as const) ip('netns', 'del', spaceOf(one as C))
  }
  const inSwitch = ['-n', spaceOf('switch')]
  const steps: readonly (readonly string[])[] = [
    ['netns', 'add', spaceOf('switch')],
    [...inSwitch, 'link', 'add', 'lan', 'type', 'bridge'],
    [...inSwitch, 'link', 'set', 'lan', 'up'],
    ...computers.flatMap((computer, at) => {
      const within = ['-n', spaceOf(computer)]
      const port = ['peer', 'name', `port${at}`, 'netns', spaceOf('switch')]
      return [
        ['netns', 'add', spaceOf(computer)],
        ['link', 'add', 'lan', 'netns', spaceOf(computer), 'type', 'veth', ...port],
        [...inSwitch, 'link', 'set', `port${at}`, 'master', 'lan', 'up'],
        [...within, 'addr', 'add', `${addressOf(computer)}/24`, 'dev', 'lan'],
        [...within, 'link', 'set', 'lo', 'up'],
        [...within, 'link', 'set', 'lan', 'up'],
        [...within, 'route', 'add', '224.0.0.0/4', 'dev', 'lan'],
      ]
    }),
  ]
  for (const step of steps) {
    const { fault } = ip(...step)
    if (fault === null) continue
    remove()
    return fault
  }
  return {
    addressOf,
    on: (computer, command) => ['ip', 'netns', 'exec', spaceOf(computer), ...command],
    interfaces: (computer) =>
      [...ip('-n', spaceOf(computer), '-o', 'link').out.matchAll(/^\d+: ([^:@]+)/gm)].map(([, one = '']) => one),
    macOf: (computer) => / link\/ether (\S+)/.exec(ip('-n', spaceOf(computer), 'link', 'show', 'lan').out)?.[1] ?? '',
    link: (computer, state) => {
      const within = ['-n', spaceOf(computer)]
      ip(...within, 'link', 'set', 'lan', state)
      // The route goes with the link.
      if (state === 'up') ip(...within, 'route', 'add', '224.0.0.0/4', 'dev', 'lan')
    },
    isUp: (computer) => /[<,]UP[,>]/.test(ip('-n', spaceOf(computer), 'link', 'show', 'lan').out),
    remove,
  }
}
