/** Looks every few milliseconds; rejects with `what` when it does not become true within `withinMs`. */
export async function waitUntil(
  what: string,
  holds: () => boolean | Promise<boolean>,
  withinMs = 30_000,
): Promise<number> {
  const began = performance.now()
  for (;;) {
    if (await holds()) return performance.now() - began
    if (performance.now() - began > withinMs) throw new Error(`not within ${withinMs} ms: ${what}`)
    await Bun.sleep(5)
  }
}
