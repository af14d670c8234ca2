/* What a process asks of the system for itself. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

/* As many descriptors as the hard limit grants. Where that fails the old limit serves fewer connections. */
void process_raise_descriptors(void);

#endif
