const workMs = 20

/**
 * For the hostile tests alone, whose subject is that others are served meanwhile. A bound of so many milliseconds, on this
 * machine as busy as it is now: 1 where a processor is free, more where the test has to share it. Ask at the moment of the
 * assertion. A bound says "promptly"; how promptly, bench/ measures.
 */
export function promptly(ms: number): number {
  const [beganMs, used] = [performance.now(), process.cpuUsage()]
  let cpuMs = 0
  while (cpuMs < workMs) {
    const { user, system } = process.cpuUsage(used)
    cpuMs = (user + system) / 1_000
  }
  const share = (performance.now() - beganMs) / cpuMs
  // Several processes hand the work on to each other, and each of them waits for its turn.
  return ms * Math.max(1, 2 * share - 1)
}

/** False: it has not resolved within a bound of so many milliseconds on this machine, as busy as it is. */
export function inTime(work: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const began = performance.now()
    const look = () => {
      const leftMs = promptly(ms) - (performance.now() - began)
      if (leftMs <= 0) resolve(false)
      else timer = setTimeout(look, leftMs)
    }
    let timer = setTimeout(look, ms)
    work.then(() => resolve(true), reject).finally(() => clearTimeout(timer))
  })
}

/** True for so many milliseconds from now, on this machine, as busy as it is. */
export function patience(ms: number): () => boolean {
  const began = performance.now()
  return () => {
    const tookMs = performance.now() - began
    return tookMs < ms || tookMs < promptly(ms)
  }
}
