// Tests of one process share its environment: none of them may depend on what the shell that runs them has set.
for (const name of Object.keys(process.env)) {
  if (name.startsWith('SVC_') || name === 'DATABASE_URL') delete process.env[name]
}
