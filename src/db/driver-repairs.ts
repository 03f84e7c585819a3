/**
 * postgres.js 3.4.9 with six repairs, five of them in how it takes the end of a connection. Without them a query that meets a closing
 * connection may wait for ever, and its place in the pool is lost; seen within seconds when connections are cut under
 * load, as by every restart of PostgreSQL:
 *
 * 1. A write that was still waiting is cancelled but not forgotten, so that the next connection of this place never
 *    writes its first message: CONNECT_TIMEOUT, again and again. An error the old server sent is kept likewise.
 * 2. After a socket error it expects `close` before any other code runs. Bun emits it some turns later, and the queries
 *    sent in between are settled by neither, and the end of the client waits for a query that is long settled.
 * 3. It stops listening to a closed socket, on which Bun may emit a second error: that would end the process.
 * 4. Nobody awaits the query with which a new connection learns the array types: cut off, it would end the process too.
 * 5. A transaction whose connection has ended sends its ROLLBACK there all the same: to a socket that is no more, which
 *    ends the process, or whose answer is waited for for ever; and its place counts as busy from then on.
 * 6. A reader of COPY that is slower than the server pauses the socket, and nobody resumes it when the last rows came
 *    together with the end: the next query waits for ever (seen with 2,000 rows).
 */
const repairs = [
  [
    '    stream && stream.push(null)\n    stream = null\n',
    '    stream && stream.push(null)\n    stream = null\n    socket.resume()\n',
  ],
  [
    '    incomings = null\n    clearImmediate(nextWriteTimer)\n',
    '    incomings = null\n    clearImmediate(nextWriteTimer)\n    chunk = nextWriteTimer = errorResponse = null\n',
  ],
  [
    "    !hadError && (query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))\n",
    // The line before it ends without a semicolon.
    "    ;(query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))\n    query = results = null\n",
  ],
  [
    '    socket.removeAllListeners()\n    socket = null\n',
    '    socket.removeAllListeners()\n    socket.on("error", () => {})\n    socket = null\n',
  ],
  ['], [], execute)\n    types.forEach(', '], [], execute).catch(() => [])\n    types.forEach('],
  [
    '    if (terminated)\n      return queryError(q,',
    "    if (socket === null && !terminated)\n      return (queryError(q, Errors.connection('CONNECTION_CLOSED', options)), true)\n    if (terminated)\n      return queryError(q,",
  ],
] as const

/** Where the repairs belong. */
export const driverFile = /[/\\]postgres[/\\]src[/\\]connection\.js$/

/** The driver's source with all of them. Throws where they do not fit. */
export function repairedDriver(source: string): string {
  let contents = source
  for (const [broken, whole] of repairs) {
    if (contents.split(broken).length !== 2) throw new Error('src/db/driver.ts does not fit this version of postgres')
    contents = contents.replace(broken, whole)
  }
  return contents
}
