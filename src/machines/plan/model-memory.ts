/** MiB by device. */
export type DeviceMb = Readonly<Record<string, number>>

/** A model server of one computer, as the choice of who gives way sees it. */
export interface MemoryHolder {
  readonly id: string
  readonly memoryMb: DeviceMb
  /** Of one group only one may be in memory; null: it is in none. */
  readonly group: string | null
  /** It gives way to no other model. */
  readonly pinned: boolean
  /** `away`: it holds no memory. `leaving`: it does until its processes are gone. */
  readonly holds: 'away' | 'idle' | 'working' | 'leaving'
  /** Unix ms when its last call ended, or when it was loaded. */
  readonly lastUsedMs: number
}

/** The steps before a model can be loaded. */
export type Room =
  | { readonly kind: 'free' }
  /** These have no work and give way. */
  | { readonly kind: 'evict'; readonly ids: readonly string[] }
  /**
   * Processes must end or finish their work first. `busy`: the models whose work must finish, least recently used
   * first.
   */
  | { readonly kind: 'wait'; readonly busy: readonly string[] }

/** What is missing on each device until `wanted` fits. */
class Missing {
  private readonly byDevice: Map<string, number>

  constructor(wanted: MemoryHolder, holders: readonly MemoryHolder[], budgetMb: DeviceMb) {
    this.byDevice = new Map(
      Object.entries(wanted.memoryMb).map(([device, mb]) => [device, mb - (budgetMb[device] ?? 0)]),
    )
    for (const holder of holders) this.change(holder, 1)
  }

  /** Nothing that the holder has is missing. */
  without({ memoryMb }: MemoryHolder): boolean {
    return Object.keys(memoryMb).every((device) => (this.byDevice.get(device) ?? 0) <= 0)
  }

  change({ memoryMb }: MemoryHolder, sign: 1 | -1): void {
    for (const [device, mb] of Object.entries(memoryMb)) {
      const missing = this.byDevice.get(device)
      if (missing !== undefined) this.byDevice.set(device, missing + sign * mb)
    }
  }
}

/**
 * Is there room for `wanted` within the budget of each device (§30)? Models of its group are unloaded first, then the least
 * recently used without work. A model with work is never ended, a pinned one gives way to none.
 */
export function roomFor(wanted: MemoryHolder, all: readonly MemoryHolder[], budgetMb: DeviceMb): Room {
  const holders = all.filter(({ id, holds }) => id !== wanted.id && holds !== 'away')
  const rivals = holders.filter(({ group }) => wanted.group !== null && group === wanted.group)
  const others = holders.filter((holder) => !rivals.includes(holder))
  const inOrder = [...oldestFirst(rivals), ...oldestFirst(others)]
  const missing = new Missing(wanted, holders, budgetMb)
  const isDone = (holder: MemoryHolder) => missing.without(holder) && !rivals.includes(holder)
  const ids: string[] = []
  const busy: string[] = []
  let leaving = false
  for (const kind of ['leaving', 'idle', 'working'] as const) {
    for (const holder of inOrder) {
      if (holder.holds !== kind || isDone(holder) || (holder.pinned && kind !== 'leaving')) continue
      missing.change(holder, -1)
      if (kind === 'leaving') leaving = true
      else (kind === 'idle' ? ids : busy).push(holder.id)
    }
  }
  // Idle models stay loaded until unloading them helps: they are of use while others work.
  if (busy.length > 0) return { kind: 'wait', busy }
  if (ids.length > 0) return { kind: 'evict', ids }
  return leaving ? { kind: 'wait', busy } : { kind: 'free' }
}

const oldestFirst = (holders: readonly MemoryHolder[]) =>
  holders.toSorted((a, b) => a.lastUsedMs - b.lastUsedMs || (a.id < b.id ? -1 : 1))
