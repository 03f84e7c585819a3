const failure = /error: ((?:before|after)(?:All|Each) of \S+(?: \(\S+\))?) failed$/
const unnamed = '(unnamed)'

/**
 * Reads Bun's report of a run line by line and returns each line as it should be printed: a hook that failed is
 * "(unnamed)" there, and gets the name from the error above it, which `tests/support/run/named-hooks.ts` wrote.
 */
export function nameHooks(): (line: string) => string {
  let failed: string | null = null
  return (line) => {
    failed = failure.exec(line)?.[1] ?? failed
    if (failed === null || !line.includes(unnamed)) return line
    const named = line.replace(unnamed, failed)
    failed = null
    return named
  }
}
